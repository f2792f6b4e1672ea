"""The part of the layout of zstd frames that is needed to find blocks and to limit how much they
may expand.

Source: RFC 8878, section 3.1.

Not here: the contents of blocks, which the library decompresses (zstd.py)."""

from struct import Struct
from typing import Final, NamedTuple

from records.kernel import Buffer
from records.units import KiB, MiB

WORD: Final = Struct("<I")  # magic numbers, the size of a skippable frame, checksum
MAGIC: Final = WORD.pack(0xFD2FB528)
SKIPPABLE_MAGIC: Final = 0x184D2A50  # to ...5F
SKIPPABLE_MASK: Final = 0xFFFFFFF0

# A frame's header: magic, descriptor, window descriptor, number of a dictionary, content size
DESCRIPTOR_AT: Final = len(MAGIC)
FIELDS_AT: Final = DESCRIPTOR_AT + 1
SINGLE_SEGMENT: Final = 0x20  # there is no window descriptor: the window is the content
RESERVED: Final = 0x08
CHECKSUM: Final = 0x04  # after the last block
DICTIONARY_MASK: Final = 0x03
DICTIONARY_SIZES: Final = (0, 1, 2, 4)
CONTENT_SIZE_SHIFT: Final = 6
CONTENT_SIZE_SIZES: Final = (0, 2, 4, 8)
CONTENT_SIZE_BASE: Final = {2: 256}  # added to a content size whose field has this many bytes

BLOCK_HEAD_SIZE: Final = 3  # last (1 bit), kind (2 bits), size
BLOCK_SIZE_MAX: Final = 128 * KiB
REPEATED: Final = 1  # a kind: one byte, `size` times
UNKNOWN: Final = 3  # a kind

# RFC 8878 asks all decoders to support this size. Levels up to 19 use it. Kafka's level 3 uses 2
# MiB.
WINDOW_SIZE_MAX: Final = 8 * MiB
WINDOW_DESCRIPTOR_MAX: Final = 13 << 3
assert 1 << 10 + (WINDOW_DESCRIPTOR_MAX >> 3) == WINDOW_SIZE_MAX


def _content_size_size(descriptor: int) -> int:
    size = CONTENT_SIZE_SIZES[descriptor >> CONTENT_SIZE_SHIFT]
    return 1 if size == 0 and descriptor & SINGLE_SEGMENT else size


def _header_size(descriptor: int) -> int:
    window_size = 0 if descriptor & SINGLE_SEGMENT else 1
    dictionary_size = DICTIONARY_SIZES[descriptor & DICTIONARY_MASK]
    return FIELDS_AT + window_size + dictionary_size + _content_size_size(descriptor)


HEADER_SIZES: Final = tuple(_header_size(descriptor) for descriptor in range(256))


class FrameHeader(NamedTuple):
    """A frame's header, with a window of affordable size."""

    encoded: bytes
    block_size_max: int
    has_checksum: bool
    has_dictionary: bool
    is_window_cut: bool

    @classmethod
    def parse(cls, header: bytes) -> "FrameHeader":
        """Parses a complete header. Cuts the window's size to `WINDOW_SIZE_MAX`.

        After a cut, the result is right only for a frame whose content is not larger."""
        descriptor = header[DESCRIPTOR_AT]
        single_segment = bool(descriptor & SINGLE_SEGMENT)
        dictionary_at = FIELDS_AT if single_segment else FIELDS_AT + 1
        content_size_at = dictionary_at + DICTIONARY_SIZES[descriptor & DICTIONARY_MASK]
        if single_segment:
            content_size = header[content_size_at:]
            window_size = int.from_bytes(content_size, "little")
            window_size += CONTENT_SIZE_BASE.get(len(content_size), 0)
        else:
            exponent, mantissa = divmod(header[FIELDS_AT], 8)
            window_size = (1 << 10 + exponent) // 8 * (8 + mantissa)
        is_window_cut = window_size > WINDOW_SIZE_MAX
        encoded = header
        if is_window_cut:  # a size this large has its field even without SINGLE_SEGMENT
            changed = bytes((descriptor & ~SINGLE_SEGMENT, WINDOW_DESCRIPTOR_MAX))
            encoded = header[:DESCRIPTOR_AT] + changed + header[dictionary_at:]
        return cls(
            encoded,
            min(window_size, BLOCK_SIZE_MAX),
            bool(descriptor & CHECKSUM),
            any(header[dictionary_at:content_size_at]),
            is_window_cut,
        )


def content_bound(data: Buffer) -> int:
    """The maximum output of the blocks in bytes; -1 if the data is not one whole frame, or has a
    block larger than its window allows. (The library notices such a block only in streams.)"""
    if len(data) < FIELDS_AT or data[:DESCRIPTOR_AT] != MAGIC:
        return -1
    at = HEADER_SIZES[data[DESCRIPTOR_AT]]
    if len(data) < at:
        return -1
    header = FrameHeader.parse(bytes(data[:at]))
    end = len(data) - (WORD.size if header.has_checksum else 0)
    bound = 0
    while at + BLOCK_HEAD_SIZE <= end:
        head = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        size = head >> 3
        if size > header.block_size_max:
            return -1
        at += BLOCK_HEAD_SIZE + (1 if head >> 1 & 3 == REPEATED else size)
        bound += header.block_size_max
        if head & 1:
            return bound if at == end else -1
    return -1
