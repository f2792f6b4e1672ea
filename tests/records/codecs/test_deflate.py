"""The deflate libraries: the choice between them, and their equal results."""

import zlib
from typing import NoReturn

import pytest
from isal import isal_zlib

from records.codecs import deflate
from records.codecs.deflate import (
    ISAL_SIZE_MIN,
    compress,
    crc32,
    decompress,
    deflater,
    inflater,
)
from records.kernel import Buffer

from .streams import text

DATA = text(50_000)


class Kernel:
    """A stand-in for the compiled kernel, which counts its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def gzip_compress(self, source: Buffer, start: int, end: int, level: int) -> bytes:
        self.calls.append(f"compress {level}")
        return zlib.compress(source[start:end], level, 31)

    def crc32(self, source: Buffer, start: int, end: int, value: int = 0) -> int:
        self.calls.append("crc32")
        return zlib.crc32(source[start:end], value)


@pytest.mark.usefixtures("library")
def test_all_libraries_give_the_same_results() -> None:
    for compression_level in "fast", "kafka":
        compressed = compress(DATA, compression_level)
        assert zlib.decompress(compressed, 31) == decompress(compressed, len(DATA)) == DATA
        assert decompress(compressed, len(DATA) - 1) is None
        stream = deflater(compression_level)
        assert zlib.decompress(stream.compress(DATA) + stream.flush(), 31) == DATA
    assert crc32(DATA, 5) == zlib.crc32(DATA, 5)
    raw = zlib.compress(DATA, wbits=-15)
    assert inflater().decompress(raw, len(DATA)) == DATA


@pytest.mark.usefixtures("library")
def test_anything_but_one_good_member_is_left_to_the_stream() -> None:
    good = compress(b"hello", "fast")
    assert decompress(good, 5) == b"hello"
    for other in b"", b"x", good[:-1], good[:-8], good + b"x", good * 2, b"\x00" + good[1:]:
        assert decompress(other, 100) is None
    for at in range(len(good) - 8, len(good)):
        assert decompress(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], 100) is None


def test_the_kernel_is_used_where_it_is_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    monkeypatch.setattr(deflate, "native", kernel)
    monkeypatch.setattr(deflate, "library", isal_zlib)
    compressed = compress(DATA, "kafka")
    assert zlib.decompress(compressed, 31) == DATA
    crc32(DATA, 0)
    assert kernel.calls == ["compress 6", "crc32"]
    compress(DATA[:ISAL_SIZE_MIN], "fast")
    assert len(kernel.calls) == 2  # isal is faster
    compress(DATA[: ISAL_SIZE_MIN - 1], "fast")
    assert kernel.calls.pop() == "compress 1"
    monkeypatch.setattr(deflate, "library", zlib)
    compress(DATA, "fast")
    assert kernel.calls[2:] == ["compress 1"]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("size", [0, 100, ISAL_SIZE_MIN, 50_000])
def test_the_level_minus_one_is_kafkas(size: int) -> None:
    data = text(50_000)[:size]
    assert compress(data, -1) == compress(data, "kafka")
    made = []
    for level in (-1, "kafka", 6):
        stream = deflater(level)
        made.append(stream.compress(data) + stream.flush())
    assert made[0] == made[1] == made[2]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("level", range(1, 10))
def test_every_level_of_gzip_is_read(level: int) -> None:
    assert decompress(compress(DATA, level), len(DATA)) == DATA
    assert len(compress(DATA, level)) >= len(compress(DATA, 9))


@pytest.mark.usefixtures("library")
def test_a_level_does_not_depend_on_the_levels_before() -> None:
    levels = 1, 9, 6, 1, 6, 9
    made = [compress(DATA, level) for level in levels]
    assert made[:3] == [made[3], made[5], made[4]]
    assert len(made[0]) > len(made[2]) > len(made[1])


def test_without_isal_and_kernel_there_is_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> NoReturn:
        raise AssertionError("isal was called")

    for name in "compress", "compressobj", "decompressobj", "crc32":
        monkeypatch.setattr(isal_zlib, name, missing)
    monkeypatch.setattr(deflate, "library", zlib)
    monkeypatch.setattr(deflate, "native", None)
    assert compress(DATA, "fast") == zlib.compress(DATA, 1, 31)
    assert compress(DATA, "kafka") == zlib.compress(DATA, 6, 31)
    assert decompress(zlib.compress(DATA, 6, 31), len(DATA)) == DATA
    crc32(DATA, 0)
    deflater("fast")
    inflater()
