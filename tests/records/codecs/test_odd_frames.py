"""Frames that no encoder writes, but anybody can: any fields, flags, sizes, checksums and tails.

They are built field by field, because a changed byte in a good frame seldom gets past its first
check. Each has one outcome: as a stream in any windows, at once by the kernel's libraries, and at
once by Python's."""

import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Final

import cramjam
import pytest
import xxhash

from records.codecs import gzip, lz4, snappy, zstd
from records.errors import CorruptRecordsError
from records.formats import V0, V1, V2, Codec
from records.units import KiB

from . import test_gzip, test_lz4, test_zstd
from .streams import ALL, at_once, decoded, noise, of, text

COUNT: Final = 250  # of each codec


def content(random: Random) -> bytes:
    size = random.choice((0, 1, 5, 300, 300, 1023, 1025, 5000))
    return random.choice((noise, text, bytes))(size)


def damaged(random: Random, data: bytes, chance: float = 0.05) -> bytes:
    """Mostly unchanged."""
    if random.random() > chance or not data:
        return data
    at = random.randrange(len(data))
    return random.choice((data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]))


def odd_gzip(random: Random) -> bytes:
    def member() -> bytes:
        flags = random.choice((0, 0, 0, 2, 4, 8, 16, 31, 32, 128, 255))
        fields = b"\x05\x00extra" if flags & 4 else b""
        fields += b"name\x00" * (flags >> 3 & 1) + b"comment\x00" * (flags >> 4 & 1)
        head = struct.pack("<2sBBIBB", b"\x1f\x8b", 8, flags, 0, 0, 255) + fields
        if flags & 2:
            fields += struct.pack("<H", zlib.crc32(head) + random.choice((0, 0, 1)) & 0xFFFF)
        good = test_gzip.member(content(random), flags=flags, fields=fields)
        return damaged(random, good[:4]) + good[4:10] + damaged(random, good[10:])

    tails = b"", b"\x1f\x8b\x08" + bytes(random.randrange(30)), random.randbytes(25), member()[:25]
    members = b"".join(member() for _ in range(random.choice((1, 1, 2, 3))))
    return members + random.choice((b"", b"", *tails))


def odd_snappy(random: Random) -> bytes:
    def block() -> bytes:
        made = damaged(random, bytes(cramjam.snappy.compress_raw(content(random))), 0.1)
        return random.choice((made, made, made, made, b"", b"\x00", b"\xff\xff\x03" + made))

    def header() -> bytes:
        version = random.choice((1, 1, 1, 0, -1, 2))
        return damaged(random, b"\x82SNAPPY\x00") + struct.pack(">ii", version, 1)

    if random.random() < 0.2:
        return random.choice((block(), header()[: random.randrange(16)]))
    data = header()
    for _ in range(random.randrange(4)):
        made = block()
        size = len(made) + random.choice((0,) * 20 + (1, -1, -len(made) - 1, 2**30))
        data += header() * (random.random() < 0.1) + struct.pack(">i", max(size, -1)) + made
    return data + random.choice((b"", b"", b"", b"\x00", b"\x82SN", header()[:12]))


def odd_lz4(random: Random) -> bytes:
    flags = 0x60 | random.choice((0, 0, 0x10)) | random.choice((0, 8)) | random.choice((0, 4))
    flags ^= random.choice((0,) * 20 + (1, 2, 0x20, 0x40, 0x80))
    sizes = random.choice((0x40, 0x40, 0x40, 0x70, 0x30, 0x41))
    extra = random.randbytes(8) if flags & 8 else b""
    parts = []
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        data = content(random)
        if random.random() < 0.05:
            data = noise(64 * KiB)
        block = random.choice((test_lz4.stored, test_lz4.squeezed))(data)
        size, body = block[:4], damaged(random, block[4:])
        parts += [damaged(random, size), body]
        if flags & 0x10:
            parts.append(damaged(random, test_lz4.word(xxhash.xxh32_intdigest(body))))
    parts.append(random.choice((test_lz4.END,) * 9 + (b"", b"\x00\x00\x00\x80")))
    parts.append(random.choice((b"sums", b"") if flags & 4 else (b"", b"", b"tail")))
    frame = bytearray(test_lz4.frame(*parts, flags=flags, sizes=sizes, extra=extra))
    if random.random() < 0.2:  # as in v0
        end = 6 + len(extra)
        frame[end : end + 1] = test_lz4.checksum(frame[:end])
    return bytes(frame)


def odd_zstd(random: Random) -> bytes:
    def frame() -> bytes:
        single, has_sum = random.random() < 0.3, random.random() < 0.3
        width, dictionary = random.randrange(4), random.choice((0, 0, 0, 0, 1, 2, 3))
        blocks, made = [], b""
        for number in reversed(range(random.choice((1, 1, 2, 3)))):
            kind = random.choice((0, 0, 0, 1, 1, 2, 3) if random.random() < 0.2 else (0, 1))
            size = random.choice((0, 1, 5, 100, 1023, 1024, 1025, 3000))
            body = b"z" if kind == 1 else noise(size)
            made += b"z" * size if kind == 1 else body
            blocks.append(test_zstd.block(kind, size, body, last=number == 0))
        size = random.choice((len(made),) * 4 + (0, 1, 2**30))
        bytes_of_size = (int(single), 2, 4, 8)[width]
        claimed = (size - (256 if bytes_of_size == 2 else 0)) % 256**bytes_of_size
        fields = b"" if single else bytes([random.choice((0, 1, 0x50, 0x68, 0x69, 0x88, 0xFF))])
        number = random.choice((0, 0, 0, 1)) if dictionary else 0
        fields += number.to_bytes((0, 1, 2, 4)[dictionary], "little")
        fields += claimed.to_bytes(bytes_of_size, "little")
        descriptor = width << 6 | single << 5 | has_sum << 2 | dictionary
        descriptor |= random.choice((0,) * 20 + (8, 16))
        if has_sum:
            blocks.append(damaged(random, xxhash.xxh64_digest(made)[:3:-1]))
        return test_zstd.frame(*blocks, descriptor=descriptor, fields=fields)

    def skippable() -> bytes:
        size = random.choice((0, 5, 5, 6, 2**32 - 1))
        return struct.pack("<II", 0x184D2A50 + random.randrange(17), size) + bytes(min(size, 5))

    frames = [random.choice((frame, frame, skippable))() for _ in range(random.choice((1, 1, 2)))]
    return damaged(random, b"".join(frames)) + random.choice((b"", b"", b"", b"tail", b"\x28"))


CODECS: Final = {
    Codec.GZIP: (odd_gzip, gzip.decompress),
    Codec.SNAPPY: (odd_snappy, snappy.decompress),
    Codec.LZ4: (odd_lz4, lz4.decompress),
    Codec.ZSTD: (odd_zstd, zstd.decompress),
}


@pytest.mark.parametrize("codec", CODECS)
def test_an_odd_frame_has_one_outcome(codec: Codec) -> None:
    make, by_python = CODECS[codec]
    outcomes = set()
    for seed in range(COUNT):
        random = Random(seed)
        data = make(random)
        magic = V2 if codec is Codec.ZSTD else random.choice((V0, V1, V2))
        found, damage = decoded(codec, data, magic=magic)
        windows, targets = of(random.choice((1, 7, 100))), of(random.choice((13, 1000)))
        streamed = decoded(codec, data, magic=magic, windows=windows, targets=targets)
        assert streamed == (found, damage), seed
        whole = None if damage else found
        assert at_once(codec, data, magic=magic) == (whole, damage), seed
        assert in_python(by_python, data, magic) == (whole, damage), seed
        outcomes.add(damage and damage[0])
    assert len(outcomes) >= 5


def in_python(
    decompress: Callable[..., object], data: bytes, magic: int
) -> tuple[object, tuple[str, int] | None]:
    try:
        made = decompress(memoryview(data), ALL, magic)
    except CorruptRecordsError as met:
        return None, (met.reason, met.position)
    assert isinstance(made, bytes | bytearray | memoryview)
    return bytes(made), None
