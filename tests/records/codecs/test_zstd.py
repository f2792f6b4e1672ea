"""zstd: frames by the library and by hand, and frames with each kind of false claim."""

import pytest
import xxhash
import zstandard

from records.codecs import CompressionLevel, compress, decompress
from records.codecs.zstd_frame import WINDOW_SIZE_MAX
from records.formats import V2, Codec
from records.units import MiB

from .streams import PAYLOADS, at_once, damage, decoded, noise, of, text

MAGIC = b"\x28\xb5\x2f\xfd"
DAMAGED = "zstd data is damaged"
TOO_LARGE = "zstd block is larger than its frame allows"


def block(kind: int, size: int, content: bytes = b"", *, last: bool = True) -> bytes:
    return (last | kind << 1 | size << 3).to_bytes(3, "little") + content


def stored(content: bytes) -> bytes:
    """The last block, not compressed."""
    return block(0, len(content), content)


def more(content: bytes) -> bytes:
    """A block before the last one, not compressed."""
    return block(0, len(content), content, last=False)


def frame(*blocks: bytes, descriptor: int = 0, fields: bytes = b"\x58") -> bytes:
    """A frame; `fields` is a window of 2 MiB unless it is something else."""
    return MAGIC + bytes([descriptor]) + fields + b"".join(blocks)


def streamed(data: bytes, **parameters: int) -> bytes:
    """A stream as Kafka writes it: the frame does not state its content size."""
    settings = zstandard.ZstdCompressionParameters.from_level(3, **parameters)
    stream = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return stream.compress(data) + stream.flush()


# --- written and read


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("size", [0, 1, 1000, 131072, 131073, 3_000_000])
def test_frames_of_unknown_size_are_read(payload: str, size: int) -> None:
    data = PAYLOADS[payload](size)
    for checksum in 0, 1:
        compressed = streamed(data, write_checksum=checksum, write_content_size=0)
        assert zstandard.frame_content_size(compressed) == -1
        assert decoded(Codec.ZSTD, compressed) == (data, None)
        assert decoded(Codec.ZSTD, compressed, windows=of(1000), targets=of(777)) == (data, None)
        assert decompress(Codec.ZSTD, compressed, limit=size, magic=V2) == data
        if size:
            assert decompress(Codec.ZSTD, compressed, limit=size - 1, magic=V2) is None


def test_kafkas_level_is_3_and_the_fast_one_1() -> None:
    data = text(100_000)
    levels: dict[CompressionLevel, int] = {"kafka": 3, "fast": 1}
    for compression_level, level in levels.items():
        expected = zstandard.ZstdCompressor(level=level).compress(data)
        assert compress(Codec.ZSTD, data, magic=V2, compression_level=compression_level) == expected


@pytest.mark.parametrize("level", [-5, 1, 3, 10, 19, 22])
def test_every_level_is_read(level: int) -> None:
    data = text(300_000)
    compressed = zstandard.ZstdCompressor(level=level).compress(data)
    assert decoded(Codec.ZSTD, compressed) == (data, None)
    assert at_once(Codec.ZSTD, compressed) == (data, None)


def test_no_data_is_no_content() -> None:
    assert decoded(Codec.ZSTD, b"") == (b"", None)
    assert damage(Codec.ZSTD, b"") is None


def test_frames_one_after_the_other_are_one_content() -> None:
    frames = [
        compress(Codec.ZSTD, text(size), magic=V2, compression_level="fast")
        for size in (5, 0, 5000)
    ]
    skippable = b"\x5f\x2a\x4d\x18\x05\x00\x00\x00" + MAGIC + b"!"
    for between in b"", skippable, skippable * 2:
        compressed = between + between.join(frames) + between
        assert decoded(Codec.ZSTD, compressed) == (text(5) + text(5000), None)
        assert damage(Codec.ZSTD, compressed) is None
    cut = frames[0] + skippable[:-1]
    assert damage(Codec.ZSTD, cut) == ("zstd data ends too early", len(cut))
    huge = frames[0] + skippable[:4] + b"\xff\xff\xff\xff" + bytes(5000)
    assert damage(Codec.ZSTD, huge) == ("zstd data ends too early", len(huge))


@pytest.mark.parametrize("tail", [b"\x00", MAGIC[:3], MAGIC, bytes(100), b"not a frame"])
def test_only_a_frame_may_follow_a_frame(tail: bytes) -> None:
    compressed = compress(Codec.ZSTD, b"hello", magic=V2, compression_level="fast")
    assert decoded(Codec.ZSTD, compressed + tail)[0] == b"hello"
    seen = damage(Codec.ZSTD, compressed + tail)
    if len(tail) < 4 or tail == MAGIC:
        assert seen == ("zstd data ends too early", len(compressed) + len(tail))
    else:
        assert seen == ("not a zstd frame", len(compressed))


# --- frames by hand


def test_blocks_of_each_kind_are_read() -> None:
    body = more(b"abc"), more(b""), block(1, 99_999, b"x")
    content = b"abc" + b"x" * 99_999
    assert decoded(Codec.ZSTD, frame(*body)) == (content, None)
    assert damage(Codec.ZSTD, frame(*body)) is None
    sized = frame(*body, descriptor=0x80, fields=b"\x58" + len(content).to_bytes(4, "little"))
    assert decoded(Codec.ZSTD, sized) == (content, None)
    single = frame(*body, descriptor=0xA0, fields=len(content).to_bytes(4, "little"))
    assert decoded(Codec.ZSTD, single) == (content, None)
    assert decompress(Codec.ZSTD, single, limit=len(content), magic=V2) == content


@pytest.mark.parametrize(
    ("compressed", "reason", "position"),
    [
        (b"\x00" + MAGIC, "not a zstd frame", 0),
        (frame(stored(b"a"), descriptor=8), "zstd frame has an unknown flag", 0),
        (frame(stored(b"a"), descriptor=1, fields=b"XX"), "zstd frame needs a dictionary", 0),
        (frame(more(b"a"), block(3, 0)), "zstd block is of an unknown kind", 10),
        (frame(block(1, 131_073, b"x")), TOO_LARGE, 6),
        (frame(block(0, 2**21 - 1, b"x")), TOO_LARGE, 6),
        (frame(stored(b"12345"), descriptor=0x20, fields=b"\x04"), TOO_LARGE, 6),
        (frame(stored(bytes(1025)), descriptor=0x40, fields=b"\x00\x01\x03"), TOO_LARGE, 8),
        (frame(block(1, 1025, b"x"), descriptor=0x40, fields=b"\x00\x01\x03"), TOO_LARGE, 8),
        (frame(block(1, 0, b"x"), descriptor=0x20, fields=b"\x00"), DAMAGED, 6),
        (frame(more(b"123"), stored(b"12"), descriptor=0x20, fields=b"\x04"), DAMAGED, 12),
        (frame(stored(b"1234"), descriptor=0x20, fields=b"\x05"), DAMAGED, 6),
        (frame(stored(b"abc"), b"\x00\x00\x00\x00", descriptor=4), DAMAGED, 0),
        (frame(more(b"a"), block(2, 3, b"\xff\xff\xff")), DAMAGED, 10),
        (frame(block(2, 3, b"\xff\xff\xff")), DAMAGED, 6),
    ],
)
def test_a_frame_with_a_false_size_is_damage(compressed: bytes, reason: str, position: int) -> None:
    assert damage(Codec.ZSTD, compressed) == (reason, position)
    good = frame(stored(b"good"))
    assert damage(Codec.ZSTD, good + compressed) == (reason, len(good) + position)


def test_checksums_are_compared() -> None:
    checksum = xxhash.xxh64_digest(b"abc")[:3:-1]
    good = frame(stored(b"abc"), checksum, descriptor=4)
    assert decoded(Codec.ZSTD, good) == (b"abc", None)
    assert damage(Codec.ZSTD, good) is None
    empty = frame(stored(b""), bytes(4), descriptor=0x24, fields=b"\x00")
    assert damage(Codec.ZSTD, empty) == (DAMAGED, 0)


@pytest.mark.parametrize("size", [4, 2**20, 2**32, 2**60, 2**64 - 2])
def test_a_false_content_size_is_damage_and_allocates_nothing(size: int) -> None:
    encoded = size.to_bytes(8, "little")
    compressed = frame(stored(b"abc"), descriptor=0xC0, fields=b"\x58" + encoded)
    assert damage(Codec.ZSTD, compressed) == (DAMAGED, 14)
    single = frame(stored(b"abc"), descriptor=0xE0, fields=encoded)
    assert damage(Codec.ZSTD, single) == (DAMAGED, 13)


@pytest.mark.parametrize(("descriptor", "width"), [(0x80, 4), (0xC0, 8)])
def test_the_blocks_of_a_frame_that_claims_to_be_empty_are_read(
    descriptor: int, width: int
) -> None:
    """The library does not read them if it gets the whole frame."""
    fields = b"\x58" + bytes(width)
    empty = frame(more(b""), stored(b""), descriptor=descriptor, fields=fields)
    assert decoded(Codec.ZSTD, empty) == (b"", None)
    for last, position in (stored(b"abc"), 6 + width), (block(3, 0), 6 + width):
        claimed = frame(last, descriptor=descriptor, fields=fields)
        seen = damage(Codec.ZSTD, claimed)
        assert seen is not None
        assert seen[1] == position


# --- windows


@pytest.mark.parametrize("descriptor", [0x58, 0x68, 0x69, 0x70, 0x88, 0xF8, 0xFF])
def test_small_content_is_read_even_if_its_frame_requires_a_huge_window(descriptor: int) -> None:
    data = text(500_000)
    plain = bytearray(streamed(data, write_content_size=0))
    plain[5] = descriptor
    assert decoded(Codec.ZSTD, bytes(plain)) == (data, None)
    assert at_once(Codec.ZSTD, bytes(plain)) == (data, None)


def test_a_frame_with_a_window_and_content_above_8_mib_is_refused() -> None:
    data = noise(MiB) + bytes(9 * MiB) + noise(MiB)
    large = streamed(data, window_log=24, enable_ldm=1, write_content_size=0)
    content, seen = decoded(Codec.ZSTD, large)
    assert seen == ("zstd frame needs a window above 8 MiB", 0)
    assert content == data[:WINDOW_SIZE_MAX]
    modest = streamed(data, window_log=23, write_content_size=0)
    assert decoded(Codec.ZSTD, modest) == (data, None)
    full = streamed(data[:WINDOW_SIZE_MAX], window_log=27, write_content_size=0)
    assert decoded(Codec.ZSTD, full) == (data[:WINDOW_SIZE_MAX], None)


def test_a_match_before_the_beginning_is_damage_however_large_the_window() -> None:
    zdict = zstandard.ZstdCompressionDict(text(5000), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    stream = zstandard.ZstdCompressor(dict_data=zdict).compressobj()
    compressed = bytearray(stream.compress(text(5000)) + stream.flush())
    assert len(compressed) < 100
    for descriptor in 0x58, 0x68, 0x88, 0xFF:
        compressed[5] = descriptor
        seen = damage(Codec.ZSTD, bytes(compressed))
        assert seen is not None
        assert seen[0] == DAMAGED
