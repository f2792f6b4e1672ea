"""gzip: members as Java reads them, with each of the libraries."""

import struct
import zlib

import pytest

from records.codecs import CompressionLevel, compress, decompress, deflate, open_decoder
from records.codecs.gzip import FURTHER_SIZE_MIN
from records.formats import V1, Codec

from .streams import ALL, damage, decoded, noise, of, pull_from, text

KAFKA_HELLO = bytes.fromhex("1f8b08000000000000ffcb48cdc9c9070086a6103605000000")

pytestmark = pytest.mark.usefixtures("library")


def member(
    content: bytes,
    *,
    flags: int = 0,
    fields: bytes = b"",
    method: int = 8,
    crc: int | None = None,
    size: int | None = None,
) -> bytes:
    squeeze = zlib.compressobj(6, wbits=-15)
    crc = zlib.crc32(content) if crc is None else crc
    size = len(content) if size is None else size
    return (
        bytes((0x1F, 0x8B, method, flags, 0, 0, 0, 0, 0, 0xFF))
        + fields
        + squeeze.compress(content)
        + squeeze.flush()
        + struct.pack("<II", crc, size)
    )


def header_checksum(header: bytes) -> bytes:
    return struct.pack("<H", zlib.crc32(header) & 0xFFFF)


def test_a_member_by_java_is_read() -> None:
    assert decoded(Codec.GZIP, KAFKA_HELLO) == (b"hello", None)
    assert damage(Codec.GZIP, KAFKA_HELLO) is None


@pytest.mark.parametrize("compression_level", ["fast", "kafka"])
@pytest.mark.parametrize("size", [0, 1, 1000, 65536, 98304, 200_001])
def test_our_gzip_data_has_neither_name_nor_time_and_is_read_by_zlib(
    compression_level: CompressionLevel, size: int
) -> None:
    for data in noise(size), text(size), bytes(size):
        compressed = compress(Codec.GZIP, data, magic=V1, compression_level=compression_level)
        assert compressed[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
        assert zlib.decompress(compressed, 31) == data
        assert decompress(Codec.GZIP, compressed, limit=size, magic=V1) == data
        assert decoded(Codec.GZIP, compressed) == (data, None)


def test_kafkas_level_gives_javas_size_or_less() -> None:
    for data in text(16384), text(300_000), noise(8192) + bytes(8192):
        size = len(compress(Codec.GZIP, data, magic=V1, compression_level="kafka"))
        assert size < 1.03 * len(zlib.compress(data, 6, 31))


@pytest.mark.parametrize("size", [0, 1, 1000, 200_001])
def test_each_library_reads_what_the_other_writes(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = text(size)
    compressed = [
        compress(Codec.GZIP, data, magic=V1, compression_level=compression_level)
        for compression_level in ("fast", "kafka")
    ]
    monkeypatch.setattr(deflate, "library", zlib)
    monkeypatch.setattr(deflate, "native", None)
    for one in compressed:
        assert decompress(Codec.GZIP, one, limit=ALL, magic=V1) == data
        assert decoded(Codec.GZIP, one) == (data, None)


# --- the header


def test_any_header_is_read() -> None:
    for flags in range(256):
        fields = b""
        if flags & 4:
            fields += b"\x05\x00extra"
        if flags & 8:
            fields += b"a name\x00"
        if flags & 16:
            fields += b"a comment\x00"
        if flags & 2:
            fields += header_checksum(member(b"", flags=flags)[:10] + fields)
        compressed = member(b"hello", flags=flags, fields=fields)
        assert decoded(Codec.GZIP, compressed) == (b"hello", None)
        assert damage(Codec.GZIP, compressed) is None
        assert damage(Codec.GZIP, compressed[:10]) == ("gzip data ends too early", 10)


@pytest.mark.parametrize(
    ("compressed", "reason"),
    [
        (b"\x1f\x8c" + KAFKA_HELLO[2:], "not gzip data"),
        (b"\x00" * 40, "not gzip data"),
        (member(b"hello", method=7), "gzip data of an unknown method"),
        (member(b"hello", flags=2, fields=b"\x00\x00"), "gzip header checksum does not match"),
    ],
)
def test_a_header_that_java_refuses_is_damage(compressed: bytes, reason: str) -> None:
    assert damage(Codec.GZIP, compressed) == (reason, 0)


def test_fields_that_never_end_are_data_that_ends_too_early() -> None:
    for flags, fields in (4, b"\xff\xff" + b"x" * 5000), (8, b"n" * 5000), (16, b"c" * 5000):
        compressed = bytes((0x1F, 0x8B, 8, flags)) + bytes(6) + fields
        assert damage(Codec.GZIP, compressed) == ("gzip data ends too early", len(compressed))


# --- the content


def test_content_is_checked_by_crc_and_size() -> None:
    data = text(50_000)
    crc = zlib.crc32(data)
    wrong_crc = member(data, crc=crc ^ 1)
    assert decoded(Codec.GZIP, wrong_crc)[0] == data
    assert damage(Codec.GZIP, wrong_crc) == ("gzip checksum does not match", 0)
    for size in 0, len(data) - 1, len(data) + 1, 2**32 - 1:
        assert damage(Codec.GZIP, member(data, size=size)) == ("gzip size does not match", 0)


@pytest.mark.parametrize("body", [b"\x07", b"\xff" * 100, b"\x01\x05\x00\x00\x00hello"])
def test_invalid_deflate_data_is_damage(body: bytes) -> None:
    compressed = KAFKA_HELLO[:10] + body + bytes(8)
    assert damage(Codec.GZIP, compressed) == ("gzip data is damaged", 0)


def test_all_content_before_a_cut_is_returned() -> None:
    """Few bytes hold much of it, and the library may hold more of it back than a piece."""
    compressed = zlib.compress(bytes(100_000), 9, 31)
    for end in range(20, len(compressed) - 8):
        content, _ = decoded(Codec.GZIP, compressed[:end])
        assert content == deflate.library.decompressobj(31).decompress(compressed[:end], 0)


def test_a_match_before_the_beginning_is_damage() -> None:
    squeeze = zlib.compressobj(6, wbits=-15, zdict=b"hello, old friend")
    body = squeeze.compress(b"hello, old friend") + squeeze.flush()
    assert damage(Codec.GZIP, KAFKA_HELLO[:10] + body + bytes(8)) == ("gzip data is damaged", 0)


def test_content_above_the_limit_is_not_returned_whatever_size_it_claims() -> None:
    data = text(100_000)
    for size in 0, 10, 99_999, 2**32 - 1:
        compressed = member(data, size=size)
        assert decompress(Codec.GZIP, compressed, limit=99_999, magic=V1) is None


# --- several members


@pytest.mark.parametrize("contents", [(b"one", b"two"), (b"", b"", b"x"), (text(70_000),) * 3])
def test_members_one_after_the_other_are_one_content(contents: tuple[bytes, ...]) -> None:
    compressed = b"".join(member(content, flags=8, fields=b"n\x00") for content in contents)
    assert decoded(Codec.GZIP, compressed) == (b"".join(contents), None)
    assert damage(Codec.GZIP, compressed) is None


@pytest.mark.parametrize(
    "after",
    [
        bytes(1),
        KAFKA_HELLO[: FURTHER_SIZE_MIN - 1],
        bytes(100_000),
        b"\x1f\x8b\x09" + bytes(40),
        b"\x1f\x8b\x08\x08" + b"name without an end" * 10,
        b"\x1f\x8b\x08\x02" + bytes(40),
    ],
)
def test_other_bytes_after_a_member_are_ignored(after: bytes) -> None:
    compressed = member(b"hello") + after
    assert decoded(Codec.GZIP, compressed) == (b"hello", None)
    assert damage(Codec.GZIP, compressed) is None


def test_a_further_member_that_ends_as_soon_as_it_can_be_one_is_damage() -> None:
    compressed = member(b"hello") + KAFKA_HELLO[:FURTHER_SIZE_MIN]
    assert damage(Codec.GZIP, compressed) == ("gzip data ends too early", len(compressed))


def test_a_further_member_that_is_damaged_is_damage() -> None:
    first = member(text(1000))
    for further, reason in [
        (member(b"hello", crc=0), "gzip checksum does not match"),
        (KAFKA_HELLO[:10] + b"\x07" + bytes(20), "gzip data is damaged"),
    ]:
        assert decoded(Codec.GZIP, first + further)[0].startswith(text(1000))
        assert damage(Codec.GZIP, first + further) == (reason, len(first))
    cut = first + member(text(1000))[:-1]
    assert damage(Codec.GZIP, cut) == ("gzip data ends too early", len(cut))


def test_highly_compressed_content_comes_in_small_pieces() -> None:
    compressed = zlib.compress(bytes(20_000_000), 9, 31)
    decoder = open_decoder(Codec.GZIP, pull_from(compressed, of(ALL)), magic=V1)
    target = memoryview(bytearray(100_000))
    read = 0
    while given := decoder.read_into(target):
        read += given
    assert read == 20_000_000
