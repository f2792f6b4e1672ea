"""snappy: xerial's framing, raw blocks, and the data that snappy-java accepts and refuses."""

import struct

import cramjam
import pytest

from records.codecs import compress, decompress, snappy
from records.formats import V1, V2, Codec

from .streams import PAYLOADS, at_once, damage, decoded, noise, of, text

HEADER = bytes.fromhex("82534e41505059000000000100000001")
HELLO = HEADER + bytes.fromhex("00000007051068656c6c6f")
DAMAGED = "snappy block is damaged"


def raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def block(compressed: bytes) -> bytes:
    return struct.pack(">i", len(compressed)) + compressed


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


# --- written


def test_hello_is_compressed_as_by_kafka() -> None:
    assert compress(Codec.SNAPPY, b"hello", magic=V1, compression_level="kafka") == HELLO
    assert decompress(Codec.SNAPPY, HELLO, limit=5, magic=V1) == b"hello"


def test_no_data_is_a_header() -> None:
    assert compress(Codec.SNAPPY, b"", magic=V1, compression_level="kafka") == HEADER
    assert decoded(Codec.SNAPPY, HEADER) == (b"", None)
    assert damage(Codec.SNAPPY, HEADER) is None


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("size", [1, 32768, 32769, 200_001])
def test_data_is_cut_into_blocks_of_32_kib(payload: str, size: int) -> None:
    data = PAYLOADS[payload](size)
    compressed = compress(Codec.SNAPPY, data, magic=V2, compression_level="fast")
    parts = [data[at : at + 32768] for at in range(0, size, 32768)]
    assert compressed == HEADER + b"".join(block(raw(part)) for part in parts)


# --- framed


@pytest.mark.parametrize("block_size", [1, 7, 1024, 32768, 100_000])
def test_blocks_may_be_of_any_size(block_size: int) -> None:
    data = text(20_000) if block_size < 1000 else text(300_000)
    parts = [data[at : at + block_size] for at in range(0, len(data), block_size)]
    compressed = HEADER + b"".join(block(raw(part)) for part in parts)
    assert decoded(Codec.SNAPPY, compressed) == (data, None)
    assert decompress(Codec.SNAPPY, compressed, limit=len(data), magic=V1) == data
    assert decompress(Codec.SNAPPY, compressed, limit=len(data) - 1, magic=V1) is None


def test_a_block_may_be_empty() -> None:
    compressed = HEADER + block(b"\x00") * 3 + block(raw(b"x")) + block(b"\x00")
    assert decoded(Codec.SNAPPY, compressed) == (b"x", None)
    assert damage(Codec.SNAPPY, compressed) is None


@pytest.mark.parametrize("versions", [(0, 0), (1, 1), (2, 1), (-1, 99)])
def test_versions_in_the_first_header_do_not_matter(versions: tuple[int, int]) -> None:
    compressed = HEADER[:8] + struct.pack(">ii", *versions) + HELLO[16:]
    assert decoded(Codec.SNAPPY, compressed) == (b"hello", None)
    assert damage(Codec.SNAPPY, compressed) is None


def test_further_headers_are_allowed_between_blocks() -> None:
    compressed = HELLO + HEADER + HELLO + HEADER
    assert decoded(Codec.SNAPPY, compressed) == (b"hellohello", None)
    assert damage(Codec.SNAPPY, compressed) is None
    for versions in (1, 0), (2, 2), (2**31 - 1, -1):  # only the first one counts
        newer = HELLO + HEADER[:8] + struct.pack(">ii", *versions) + HELLO[16:]
        assert decoded(Codec.SNAPPY, newer) == (b"hellohello", None)
    old = HELLO + HEADER[:8] + struct.pack(">ii", 0, 0) + HELLO[16:]
    assert damage(Codec.SNAPPY, old) == ("snappy header is of an unknown version", len(HELLO))
    other = HELLO + HEADER[:7] + b"!" + HEADER[8:]
    assert damage(Codec.SNAPPY, other) == ("snappy block has a negative size", len(HELLO))
    cut = HELLO + HEADER[:-1]
    assert damage(Codec.SNAPPY, cut) == ("snappy data ends too early", len(cut))


@pytest.mark.parametrize("tail", [b"\x00", b"\xff\xff", b"\x00\x00\x00"])
def test_one_to_three_bytes_in_place_of_a_size_end_the_data(tail: bytes) -> None:
    for compressed, content in (HELLO, b"hello"), (HEADER, b""):
        assert decoded(Codec.SNAPPY, compressed + tail) == (content, None)
        assert damage(Codec.SNAPPY, compressed + tail) is None


@pytest.mark.parametrize(
    ("block_", "reason"),
    [
        (struct.pack(">i", -1) + b"x", "snappy block has a negative size"),
        (struct.pack(">i", -(2**31)), "snappy block has a negative size"),
        (block(b""), DAMAGED),
        (block(b"\x80"), DAMAGED),
        (block(b"\xff" * 12), DAMAGED),
        (block(varint(2**32) + b"x"), DAMAGED),
        (block(raw(b"hello")[:-1]), DAMAGED),
        (block(raw(b"hello") + b"\x00"), DAMAGED),
        (block(varint(6) + raw(b"hello")[1:]), DAMAGED),
        (block(varint(4) + raw(b"hello")[1:]), DAMAGED),
        (block(b"\x04\x01\x00"), DAMAGED),  # a copy from nowhere
        (block(varint(2**20) + b"\x10hello"), "snappy block claims more bytes than it can hold"),
        (block(varint(300) + b"\x10hello"), "snappy block claims more bytes than it can hold"),
        (block(varint(64) + b"\0\0"), DAMAGED),  # three bytes can hold 64
        (block(varint(65) + b"\0\0"), "snappy block claims more bytes than it can hold"),
    ],
)
def test_a_block_with_a_false_size_is_damage(block_: bytes, reason: str) -> None:
    good = HEADER + block(raw(text(500)))
    assert decoded(Codec.SNAPPY, good + block_)[0] == text(500)
    assert damage(Codec.SNAPPY, good + block_) == (reason, len(good))


@pytest.mark.parametrize("left", [1, 4, 5, 6])
def test_a_block_that_is_not_whole_ends_too_early(left: int) -> None:
    cut = HELLO[:-left]
    assert damage(Codec.SNAPPY, cut) == ("snappy data ends too early", len(cut))
    huge = HEADER + struct.pack(">i", 2**31 - 1) + HELLO[20:]
    assert damage(Codec.SNAPPY, huge) == ("snappy data ends too early", len(huge))


# --- raw


@pytest.mark.parametrize("size", [0, 1, 10, 1000, 65536, 98304, 200_001, 1_500_000])
def test_data_without_framing_is_one_raw_block(size: int) -> None:
    for data in noise(size), text(size), bytes(size):
        assert decoded(Codec.SNAPPY, raw(data)) == (data, None)
        assert decoded(Codec.SNAPPY, raw(data), windows=of(1000)) == (data, None)
        assert decompress(Codec.SNAPPY, raw(data), limit=size, magic=V1) == data
        if size:
            assert decompress(Codec.SNAPPY, raw(data), limit=size - 1, magic=V1) is None


def test_a_header_that_is_not_whole_is_a_raw_block() -> None:
    for size in range(1, 16):
        assert damage(Codec.SNAPPY, HEADER[:size]) is not None


def test_no_bytes_at_all_are_damage() -> None:
    assert damage(Codec.SNAPPY, b"") == ("snappy data is empty", 0)


@pytest.mark.parametrize("compressed", [b"\x80", b"\x05", raw(b"hello")[:-1], raw(b"hello") + b"!"])
def test_a_raw_block_with_a_false_size_is_damage(compressed: bytes) -> None:
    seen = damage(Codec.SNAPPY, compressed)
    assert seen is not None
    assert seen[0] in (DAMAGED, "snappy data ends too early")


# --- large blocks


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_block_too_large_for_memory_is_read_in_steps(framed: bool, payload: str) -> None:
    data = PAYLOADS[payload](snappy.BLOCK_SIZE_MAX + 100_000)
    compressed = HEADER + block(raw(data)) + HELLO[16:] if framed else raw(data)
    content = data + b"hello" if framed else data
    assert decoded(Codec.SNAPPY, compressed) == (content, None)
    assert decoded(Codec.SNAPPY, compressed, windows=of(999)) == (content, None)
    assert at_once(Codec.SNAPPY, compressed) == (content, None)


def test_a_block_that_is_larger_only_while_it_is_compressed_is_read_whole() -> None:
    """Random bytes become longer; a raw block has no size that says so."""
    data = noise(snappy.BLOCK_SIZE_MAX)
    assert len(raw(data)) > snappy.BLOCK_SIZE_MAX
    assert decoded(Codec.SNAPPY, raw(data)) == (data, None)
    assert decoded(Codec.SNAPPY, HEADER + block(raw(data)) * 2) == (data * 2, None)


def test_any_block_is_read_in_steps_if_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snappy, "BLOCK_SIZE_MAX", 10)
    for size in 0, 1, 60, 61, 1000, 65536, 98304:
        for data in noise(size), text(size), bytes(size):
            assert decoded(Codec.SNAPPY, raw(data)) == (data, None)
            framed = HEADER + block(raw(data)) * 2
            assert decoded(Codec.SNAPPY, framed) == (data * 2, None)
            windows = of(1 if size <= 1000 else 997)
            assert decoded(Codec.SNAPPY, framed, windows=windows) == (data * 2, None)
