"""lz4: Kafka's frame, the data that its reader accepts and refuses, and the wrong checksum of v0.

The tests of Kafka's Lz4CompressionTest are here, for what exists here: neither levels nor block
checksums are written."""

import cramjam
import lz4.frame
import pytest
import xxhash

from records.codecs import CodecLevel, compress, decompress
from records.codecs.lz4 import BLOCK_SIZE
from records.formats import V0, V1, V2, Codec

from .streams import ALL, PAYLOADS, damage, decoded, noise, text

MAGIC = b"\x04\x22\x4d\x18"
END = bytes(4)
EMPTY = bytes.fromhex("04224d1860408200000000")

# Records and their frames: batches whose checksums are in Kafka's MemoryRecordsTest.
KAFKA = [
    (
        V0,
        "000000000000000000000018"
        "75f0f41d0000000000046b6579310000000676616c756531"
        "000000000000000100000018"
        "751bc3a60000000000046b6579320000000676616c756532",
        "04224d1860401a"
        "39000000"
        "16000100511875f0f41d0f00e0046b6579310000000676616c75650a0000"
        "020011012400301bc3a60d00012400b0320000000676616c756532"
        "00000000",
    ),
    (
        V1,
        "000000000000000000000020"
        "0685b364010000000000000454c3000000046b6579310000000676616c756531"
        "000000000000000100000020"
        "05093005010000000000000004d2000000046b6579320000000676616c756532",
        "04224d18604082"
        "47000000"
        "1600010062200685b364011000f0050454c3000000046b65793100000006"
        "76616c75650a0000020000230050200509300509000002002304d22c00b0320000000676616c756532"
        "00000000",
    ),
    (
        V2,
        "20000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200",
        "04224d18604082"
        "24000080"
        "20000000086b6579310c76616c75653100"
        "2400e1bf2202086b6579320c76616c75653200"
        "00000000",
    ),
]


def checksum(hashed: bytes) -> bytes:
    """The header's checksum by its definition: the second byte of XXH32."""
    return bytes([xxhash.xxh32_intdigest(hashed) >> 8 & 0xFF])


def word(number: int) -> bytes:
    return number.to_bytes(4, "little")


def stored(data: bytes) -> bytes:
    """A block that is not compressed."""
    return word(len(data) | 1 << 31) + data


def squeezed(data: bytes) -> bytes:
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    return word(len(block)) + block


def frame(*parts: bytes, flags: int = 0x60, sizes: int = 0x40, extra: bytes = b"") -> bytes:
    """A frame with the right checksum, whatever else is wrong with it."""
    descriptor = bytes((flags, sizes)) + extra
    return MAGIC + descriptor + checksum(descriptor) + b"".join(parts)


# --- written


@pytest.mark.parametrize(("magic", "records", "expected"), KAFKA)
def test_kafkas_own_batches(magic: int, records: str, expected: str) -> None:
    data, compressed = bytes.fromhex(records), bytes.fromhex(expected)
    assert compress(Codec.LZ4, data, magic=magic, compression_level="kafka") == compressed
    assert decompress(Codec.LZ4, compressed, limit=ALL, magic=magic) == data


@pytest.mark.parametrize("magic", [V0, V1, V2])
@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("size", [0, 1, 1000, 65536, 98304])
def test_frames_are_kafkas(magic: int, payload: str, size: int) -> None:
    data = PAYLOADS[payload](size)
    compressed = compress(Codec.LZ4, data, magic=magic, compression_level="kafka")
    assert compressed[:6] == MAGIC + b"\x60\x40"
    assert compressed[6:7] == checksum(compressed[0 if magic == V0 else 4 : 6])
    assert compressed[-4:] == END
    content, blocks, at = b"", 0, 7
    while block_size := int.from_bytes(compressed[at : at + 4], "little"):
        length = block_size & ~(1 << 31)
        block = compressed[at + 4 : at + 4 + length]
        assert length <= BLOCK_SIZE
        if block_size == length:
            part = bytes(cramjam.lz4.decompress_block(block, output_len=BLOCK_SIZE))
            content += part[: min(BLOCK_SIZE, size - len(content))]
        else:
            content += block
        at += 4 + length
        blocks += 1
    assert at == len(compressed) - 4
    assert content == data
    assert blocks == -(-size // BLOCK_SIZE)


def test_no_data_is_a_frame_without_blocks() -> None:
    assert compress(Codec.LZ4, b"", magic=V1, compression_level="kafka") == EMPTY
    assert decompress(Codec.LZ4, EMPTY, limit=0, magic=V1) == b""


@pytest.mark.parametrize("level", ["fast", "kafka", 12])
def test_a_block_that_does_not_shrink_is_stored(level: CodecLevel) -> None:
    for repeated, gain in (0, -3), (6, 0), (7, 1):  # bytes saved by compressing
        data = noise(40) + noise(40)[:repeated] + noise(20)
        made = compress(Codec.LZ4, data, magic=V1, compression_level=level)
        assert (made == frame(stored(data), END)) == (gain <= 0), repeated
        assert len(made) == len(EMPTY) + 4 + len(data) - max(gain, 0)


# --- the header


@pytest.mark.parametrize("size", [0, 1, 1000, 98304])
def test_v0_accepts_the_right_and_the_wrong_header_checksum(size: int) -> None:
    data = text(size)
    wrong = compress(Codec.LZ4, data, magic=V0, compression_level="fast")
    right = compress(Codec.LZ4, data, magic=V1, compression_level="fast")
    assert wrong[6] == 0x1A
    assert right[6] == 0x82
    for compressed in wrong, right, wrong[:6] + b"\xff" + wrong[7:]:
        assert decoded(Codec.LZ4, compressed, magic=V0) == (data, None)


@pytest.mark.parametrize("magic", [V1, V2])
@pytest.mark.parametrize("size", [1, 1000, 65_536, 65_537])
def test_the_wrong_header_checksum_is_damage_in_other_formats_than_v0(
    size: int, magic: int
) -> None:
    """The same holds for a frame that is decompressed in one call."""
    wrong = compress(Codec.LZ4, text(size), magic=V0, compression_level="fast")
    reason = "lz4 header checksum does not match"
    assert damage(Codec.LZ4, wrong, magic=magic) == (reason, 0)


@pytest.mark.parametrize("magic", [V1, V2])
@pytest.mark.parametrize("byte", [0x1A, 0xFF, 0x00])
def test_v1_and_v2_accept_only_the_right_header_checksum(magic: int, byte: int) -> None:
    compressed = bytearray(compress(Codec.LZ4, b"hello", magic=magic, compression_level="fast"))
    compressed[6] = byte
    reason = "lz4 header checksum does not match"
    assert damage(Codec.LZ4, bytes(compressed), magic=magic) == (reason, 0)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"", "lz4 data ends too early"),
        (MAGIC[:2], "lz4 data ends too early"),
        (MAGIC + b"\x60\x40", "lz4 data ends too early"),
        (b"\x00" + EMPTY[1:], "not an lz4 frame"),
        (frame(END, flags=0xA0), "lz4 frame is of an unknown version"),
        (frame(END, flags=0x20), "lz4 frame is of an unknown version"),
        (frame(END, flags=0x61), "lz4 frame has unknown flags"),
        (frame(END, flags=0x62), "lz4 frame has unknown flags"),
        (frame(END, flags=0x40), "lz4 frame has blocks that depend on each other"),
        (frame(END, sizes=0x30), "lz4 frame has an unknown block size"),
        (frame(END, sizes=0xC0), "lz4 frame has an unknown block size"),
        (frame(END, sizes=0x41), "lz4 frame has an unknown block size"),
    ],
)
def test_a_header_that_kafka_refuses_is_damage(header: bytes, reason: str) -> None:
    where = len(header) if reason.endswith("early") else 0
    for magic in V0, V1, V2:
        assert damage(Codec.LZ4, header, magic=magic) == (reason, where)


# --- blocks


@pytest.mark.parametrize("sizes", [0x40, 0x50, 0x60, 0x70])
def test_blocks_may_be_as_large_as_the_header_allows(sizes: int) -> None:
    size_max = 1 << 8 + 2 * (sizes >> 4)
    data = text(size_max)
    assert decoded(Codec.LZ4, frame(stored(data), END, sizes=sizes)) == (data, None)
    assert decoded(Codec.LZ4, frame(squeezed(data), END, sizes=sizes)) == (data, None)
    larger = frame(stored(data + b"x"), END, sizes=sizes)
    assert decoded(Codec.LZ4, larger)[1] == ("lz4 block is larger than its frame allows", 7)
    expanding = frame(squeezed(data + b"x"), END, sizes=sizes)
    assert decoded(Codec.LZ4, expanding)[1] == ("lz4 block is damaged", 7)


def test_a_compressed_block_may_not_be_larger_than_its_content_may_be() -> None:
    grown = frame(squeezed(noise(BLOCK_SIZE)), END)
    assert len(grown) > BLOCK_SIZE + 100
    assert damage(Codec.LZ4, grown) == ("lz4 block is larger than its frame allows", 7)


def test_a_frame_that_ends_after_the_size_of_its_next_block_is_damage() -> None:
    cut = frame(squeezed(text(1000)), stored(b"x")[:4])
    assert damage(Codec.LZ4, cut, magic=V1) == ("lz4 data ends too early", len(cut))


@pytest.mark.parametrize("block", [b"\xff", b"\x00\x00", b"\x10", b"\x1fx\x01\x00" + b"\xff" * 99])
def test_a_block_of_invalid_lz4_is_damage(block: bytes) -> None:
    good = squeezed(text(500))
    compressed = frame(good, word(len(block)) + block, END)
    assert decoded(Codec.LZ4, compressed)[0] == text(500)
    assert damage(Codec.LZ4, compressed) == ("lz4 block is damaged", 7 + len(good))


def test_a_stored_block_of_nothing_ends_the_frame_too() -> None:
    compressed = frame(stored(b"abc"), word(1 << 31), stored(b"never seen"), END)
    assert decoded(Codec.LZ4, compressed) == (b"abc", None)
    assert damage(Codec.LZ4, compressed) is None


@pytest.mark.parametrize("after", [b"\x00", b"anything", EMPTY, frame(stored(b"more"), END)])
def test_bytes_after_the_end_mark_are_not_read(after: bytes) -> None:
    for data in b"", b"one", text(100_000):
        compressed = compress(Codec.LZ4, data, magic=V2, compression_level="fast") + after
        assert decoded(Codec.LZ4, compressed) == (data, None)
        assert decompress(Codec.LZ4, compressed, limit=len(data), magic=V2) == data


# --- what Kafka does not write, and reads


def test_block_checksums_are_compared() -> None:
    blocks = [squeezed(text(5000)), stored(noise(100))]
    sums = [word(xxhash.xxh32_intdigest(block[4:])) for block in blocks]
    good = frame(blocks[0], sums[0], blocks[1], sums[1], END, flags=0x70)
    assert decoded(Codec.LZ4, good) == (text(5000) + noise(100), None)
    wrong = frame(blocks[0], sums[0], blocks[1], sums[0], END, flags=0x70)
    where = 7 + len(blocks[0]) + 4
    assert damage(Codec.LZ4, wrong) == ("lz4 block checksum does not match", where)


def test_a_content_checksum_is_read_but_not_compared() -> None:
    compressed = frame(stored(b"abc"), END, b"\xde\xad\xbe\xef", flags=0x64)
    assert decoded(Codec.LZ4, compressed) == (b"abc", None)
    assert damage(Codec.LZ4, compressed) is None
    assert damage(Codec.LZ4, compressed[:-1]) == ("lz4 data ends too early", len(compressed) - 1)


@pytest.mark.parametrize("size", [0, 3, 4, 2**64 - 1])
def test_a_content_size_is_skipped_whatever_it_claims(size: int) -> None:
    extra = size.to_bytes(8, "little")
    compressed = frame(stored(b"abc"), END, flags=0x68, extra=extra)
    assert decoded(Codec.LZ4, compressed) == (b"abc", None)
    assert damage(Codec.LZ4, compressed) is None
    unlike = bytearray(compressed)
    unlike[8] ^= 1
    assert damage(Codec.LZ4, bytes(unlike)) == ("lz4 header checksum does not match", 0)


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("checksums", [False, True])
def test_frames_of_the_lz4_library_are_read(block_size: int, checksums: bool) -> None:
    data = text(1_200_000)
    compressed = lz4.frame.compress(
        data,
        block_size=block_size,
        block_linked=False,
        block_checksum=checksums,
        content_checksum=checksums,
        store_size=checksums,
    )
    assert decoded(Codec.LZ4, compressed) == (data, None)
    assert decompress(Codec.LZ4, compressed, limit=ALL, magic=V2) == data


def test_the_lz4_library_reads_our_frames() -> None:
    for size in 0, 1, 1000, 200_001:
        data = text(size)
        assert (
            lz4.frame.decompress(compress(Codec.LZ4, data, magic=V1, compression_level="fast"))
            == data
        )
