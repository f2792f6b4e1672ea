"""The memory of decoding, whatever the input expands to or claims.

Each test runs in a child process, which may not reserve more than a little beyond what it has."""

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import cramjam
import pytest
import zstandard

from records.codecs import open_encoder
from records.formats import V1, V2, Codec
from records.units import MiB

RECORD: Final = b"one record of 1 MB, for the most part the same" * 20 + bytes(999_080)
RECORDS: Final = 80
GROWTH_MAX: Final = 8 * MiB

# The address space is limited too: what is reserved and never touched is seen there.
CHILD: Final = """
import resource, sys
from pathlib import Path
from records.codecs import decompress, open_decoder
from records.errors import CorruptRecordsError
from records.formats import Codec

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024

codec, magic, limit = Codec(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
target = memoryview(bytearray(64 * 1024))

def read(path):
    size = damage = 0
    with open(path, "rb", buffering=0) as file:
        decoder = open_decoder(codec, lambda: file.read(16 * 1024), magic=magic)
        try:
            while given := decoder.read_into(target):
                size += given
        except CorruptRecordsError as met:
            damage = met.reason
    return size, damage

read(sys.argv[4])
decompress(codec, Path(sys.argv[4]).read_bytes(), limit=limit, magic=magic)
space = status("VmSize") + 16 * 1024 * 1024
resource.setrlimit(resource.RLIMIT_AS, (space, space))
before = status("VmHWM")
size, damage = read(sys.argv[5])
if limit:
    data = Path(sys.argv[5]).read_bytes()
    before += len(data)
    try:
        print("at once:", decompress(codec, data, limit=limit, magic=magic))
    except CorruptRecordsError as met:
        print("at once:", met.reason)
print(size)
print(damage)
print(status("VmHWM") - before)
"""


def child(
    codec: Codec, bomb: bytes, tmp_path: Path, *, magic: int, limit: int = 0
) -> tuple[int, str, int, str]:
    """Reads a stream. Returns its size, the damage that ended it, the growth, and the result of
    `decompress`."""
    small = open_encoder(codec, magic=magic, compression_level="fast")
    (tmp_path / "small").write_bytes(small.write(RECORD) + small.finish())
    (tmp_path / "bomb").write_bytes(bomb)
    paths = [str(tmp_path / "small"), str(tmp_path / "bomb")]
    arguments = [str(int(codec)), str(magic), str(limit), *paths]
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    error = lines.pop(0) if limit else ""
    return int(lines[0]), lines[1], int(lines[2]), error


def gzip_bomb() -> bytes:
    """Members of one record would be cheap to make; this is one member."""
    stream = zlib.compressobj(9, wbits=31)
    return b"".join(stream.compress(RECORD) for _ in range(RECORDS)) + stream.flush()


def framed_bomb(codec: Codec) -> Callable[[], bytes]:
    def make() -> bytes:
        encoder = open_encoder(codec, magic=V2, compression_level="fast")
        return b"".join(encoder.write(RECORD) for _ in range(RECORDS)) + encoder.finish()

    return make


def large_lz4_blocks() -> bytes:
    block = bytes(cramjam.lz4.compress_block(bytes(4 * MiB), store_size=False))
    blocks = (len(block).to_bytes(4, "little") + block) * 20
    return bytes.fromhex("04224d18607073") + blocks + bytes(4)


def zstd_bomb_of_the_largest_window() -> bytes:
    """Each frame asks for 128 MiB, and holds less than our window."""
    settings = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=0)
    compressor = zstandard.ZstdCompressor(compression_params=settings)
    stream = compressor.compressobj()
    frame = stream.compress(RECORD * 4) + stream.flush()
    return frame * (RECORDS // 4)


BOMBS: Final[dict[str, tuple[Codec, Callable[[], bytes]]]] = {
    "gzip": (Codec.GZIP, gzip_bomb),
    "snappy": (Codec.SNAPPY, framed_bomb(Codec.SNAPPY)),
    "lz4": (Codec.LZ4, framed_bomb(Codec.LZ4)),
    "lz4 in blocks of 4 MiB": (Codec.LZ4, large_lz4_blocks),
    "zstd": (Codec.ZSTD, framed_bomb(Codec.ZSTD)),
    "zstd, the largest window": (Codec.ZSTD, zstd_bomb_of_the_largest_window),
}


@pytest.mark.parametrize(("codec", "make"), BOMBS.values(), ids=BOMBS)
def test_expanding_data_is_read_in_little_memory(
    codec: Codec, make: Callable[[], bytes], tmp_path: Path
) -> None:
    size, damage, grown, _ = child(codec, make(), tmp_path, magic=V2)
    assert damage == "0"
    assert size >= RECORDS * len(RECORD)
    assert grown <= GROWTH_MAX


def test_one_large_raw_snappy_block_is_read_in_little_memory(tmp_path: Path) -> None:
    bomb = bytes(cramjam.snappy.compress_raw(RECORD * 40))
    size, damage, grown, _ = child(Codec.SNAPPY, bomb, tmp_path, magic=V1)
    assert (size, damage) == (40 * len(RECORD), "0")
    assert grown <= GROWTH_MAX


GIGANTIC = 2**62
LIES: Final[dict[str, tuple[Codec, bytes]]] = {
    "a gzip size": (Codec.GZIP, zlib.compress(b"abc", 6, 31)[:-4] + b"\xff\xff\xff\xff"),
    "a snappy block": (
        Codec.SNAPPY,
        b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + b"\x7f" + b"\xff" * 3,
    ),
    "a snappy block's content": (
        Codec.SNAPPY,
        b"\x82SNAPPY\x00"
        + b"\x00\x00\x00\x01" * 2
        + b"\x00\x00\x00\x09\xff\xff\xff\xff\x0f\x08abc",
    ),
    "a raw snappy block's content": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f\x08abc"),
    "an lz4 block": (Codec.LZ4, bytes.fromhex("04224d18607073") + b"\xff\xff\x3f\x00abc"),
    "an lz4 content": (Codec.LZ4, b"\x04\x22\x4d\x18\x68\x40" + b"\xff" * 8 + b"\x00" + bytes(4)),
    "a zstd content": (
        Codec.ZSTD,
        b"\x28\xb5\x2f\xfd\xe0" + GIGANTIC.to_bytes(8, "little") + b"\x19\x00\x00abc",
    ),
    "a zstd window": (Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00\xf8\x18\x00\x00ab"),
    "a skippable zstd frame": (Codec.ZSTD, b"\x50\x2a\x4d\x18\xff\xff\xff\xffabc"),
}


@pytest.mark.parametrize(("codec", "lie"), LIES.values(), ids=LIES)
def test_no_claim_reserves_memory(codec: Codec, lie: bytes, tmp_path: Path) -> None:
    size, damage, grown, error = child(codec, lie, tmp_path, magic=V2, limit=2**31 - 1)
    assert size <= 3
    assert damage != "0"
    assert error == f"at once: {damage}"
    assert grown <= MiB
