"""The headers of zstd frames, against the library's own reading of them."""

import pytest
import zstandard

from records.codecs.zstd_frame import (
    BLOCK_SIZE_MAX,
    HEADER_SIZES,
    WINDOW_SIZE_MAX,
    FrameHeader,
    content_bound,
)

MAGIC = b"\x28\xb5\x2f\xfd"
RESERVED = 0x08
FIELDS = bytes([0x51, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("window", [0x00, 0x07, 0x51, 0x68])
@pytest.mark.parametrize("high", range(0, 256, 16))
def test_headers_are_read_as_the_library_reads_them(high: int, window: int) -> None:
    for descriptor in range(high, high + RESERVED):
        header = (MAGIC + bytes([descriptor, window]) + FIELDS[1:])[: HEADER_SIZES[descriptor]]
        assert zstandard.frame_header_size(header) == len(header)
        expected = zstandard.get_frame_parameters(header)
        read = FrameHeader.parse(header)
        assert read.encoded == header
        assert read.block_size_max == min(expected.window_size, BLOCK_SIZE_MAX)
        assert read.has_checksum == expected.has_checksum
        assert read.has_dictionary == bool(expected.dict_id)
        assert not read.is_window_cut


def test_a_dictionary_is_seen() -> None:
    for descriptor in (d for d in range(256) if d & 3 and not d & RESERVED):
        header = (MAGIC + bytes([descriptor]) + b"\x07" * 20)[: HEADER_SIZES[descriptor]]
        assert zstandard.get_frame_parameters(header).dict_id
        assert FrameHeader.parse(header).has_dictionary


@pytest.mark.parametrize("window", [0x69, 0x70, 0x88, 0x8F, 0xA0])
def test_a_window_that_is_too_large_is_cut_and_other_fields_are_kept(window: int) -> None:
    for descriptor, content_size in (0x00, b""), (0x44, b"\x01\x02"), (0xC4, bytes(range(8))):
        header = MAGIC + bytes([descriptor, window]) + content_size
        before = zstandard.get_frame_parameters(header)
        read = FrameHeader.parse(header)
        after = zstandard.get_frame_parameters(read.encoded)
        assert read.is_window_cut
        assert before.window_size > WINDOW_SIZE_MAX == after.window_size
        assert before.content_size == after.content_size
        assert before.has_checksum == after.has_checksum == read.has_checksum


@pytest.mark.parametrize(("descriptor", "width"), [(0xA0, 4), (0xA4, 4), (0xE0, 8), (0xE4, 8)])
def test_a_single_segment_too_large_gets_a_window(descriptor: int, width: int) -> None:
    for size in WINDOW_SIZE_MAX, WINDOW_SIZE_MAX + 1, 2**31:
        header = MAGIC + bytes([descriptor]) + size.to_bytes(width, "little")
        read = FrameHeader.parse(header)
        after = zstandard.get_frame_parameters(read.encoded)
        assert after.content_size == size
        assert after.window_size == WINDOW_SIZE_MAX
        assert read.is_window_cut == (size > WINDOW_SIZE_MAX)
        assert read.block_size_max == BLOCK_SIZE_MAX


@pytest.mark.parametrize("size", [0, 1, 131_072, 131_073, 1_000_000])
def test_blocks_bound_the_size_of_a_frames_content(size: int) -> None:
    for checksum in False, True:
        compressor = zstandard.ZstdCompressor(write_checksum=checksum)
        compressed = compressor.compress(bytes(size))
        bound = content_bound(compressed)
        assert size <= bound <= size + 2 * BLOCK_SIZE_MAX
        for end in range(len(compressed)):
            assert content_bound(compressed[:end]) == -1
        assert content_bound(compressed + b"\x00") == -1
        assert content_bound(b"\x00" + compressed[1:]) == -1
