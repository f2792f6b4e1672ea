"""lz4 with Kafka's framing: the frame is read and written here, its blocks by liblz4.

The framing is our own because Kafka's deviates. In format v0 the header's checksum includes the
magic number (KAFKA-3160), which no library writes and few read. Kafka's reader is also stricter in
some points, and laxer in others, than lz4's: see `pieces`.

Memory: one compressed block and one decompressed, of at most the size in the frame's header: 64 KiB
in Kafka's frames, 4 MiB in others. The decompressed one is never larger than 255 times the
compressed one, which is lz4's maximum.

Sources: Kafka's Lz4BlockInputStream and Lz4BlockOutputStream, lz4_Frame_format.md."""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, TypeAlias

import cramjam
import lz4.block
from xxhash import xxh32_intdigest

from records.errors import CorruptRecordsError
from records.formats import V0
from records.kernel import Buffer
from records.units import KiB, MiB

from .blocks import BlockEncoder
from .stream import CodecLevel, Windows, gather, whole

NAME: Final = "lz4"

MAGIC: Final = b"\x04\x22\x4d\x18"
HEAD: Final = Struct("<4sBB")  # magic, FLG, BD; then content size if flagged, HC
CONTENT_SIZE_SIZE: Final = 8
WORD: Final = Struct("<I")  # block size, checksums
STORED: Final = 0x8000_0000  # of a block's size: it is not compressed
END_MARK: Final = WORD.pack(0)

# FLG
VERSION: Final = 0x40
VERSION_MASK: Final = 0xC0
INDEPENDENT: Final = 0x20
BLOCK_CHECKSUM: Final = 0x10
CONTENT_SIZE: Final = 0x08
CONTENT_CHECKSUM: Final = 0x04
RESERVED_FLAGS: Final = 0x03

BLOCK_SIZES: Final = {  # by BD
    0x40: 64 * KiB,
    0x50: 256 * KiB,
    0x60: MiB,
    0x70: 4 * MiB,
}
FAST_ACCELERATION: Final = 3  # two thirds of the time of 1, at up to 3 % more bytes
KAFKA_LEVEL: Final = 9  # Kafka uses the fast compressor for this level
EXPANSION_MAX: Final = 255  # decompressed bytes that one compressed byte can make


def header_checksum(magic: int, descriptor: Buffer) -> int:
    """The frame header's last byte. v0: Kafka's wrong one, which readers of that time require."""
    hashed = MAGIC + bytes(descriptor) if magic == V0 else descriptor
    return xxh32_intdigest(hashed) >> 8 & 0xFF


MakeBlock: TypeAlias = Callable[[Buffer], tuple[bytes, Buffer]]
# Kafka's frames: independent blocks of 64 KiB, no sizes, no checksums.
DESCRIPTOR: Final = bytes((VERSION | INDEPENDENT, 0x40))
BLOCK_SIZE: Final = BLOCK_SIZES[DESCRIPTOR[1]]
HEADER_RIGHT: Final = MAGIC + DESCRIPTOR + bytes([header_checksum(V0 + 1, DESCRIPTOR)])
HEADER_WRONG: Final = MAGIC + DESCRIPTOR + bytes([header_checksum(V0, DESCRIPTOR)])
assert HEADER_RIGHT.hex() == "04224d18604082"
assert HEADER_WRONG.hex() == "04224d1860401a"
BLOCK_AT: Final = len(HEADER_RIGHT) + WORD.size


def pieces(windows: Windows, magic: int) -> Iterator[Buffer]:
    """The blocks of the frame, decompressed.

    Kafka's rules. Dependent blocks, reserved bits and unknown versions are refused. The header's
    checksum is compared, except in v0, where both the right and the wrong one are accepted. Block
    checksums are compared. A content size is skipped. A content checksum is read, but not compared.
    The frame ends at its end mark: later bytes are not read."""
    start = windows.position
    frame_magic, flags, sizes = HEAD.unpack(windows.take(HEAD.size))
    if frame_magic != MAGIC:
        raise CorruptRecordsError("not an lz4 frame", start)
    if flags & VERSION_MASK != VERSION:
        raise CorruptRecordsError("lz4 frame is of an unknown version", start)
    if flags & RESERVED_FLAGS:
        raise CorruptRecordsError("lz4 frame has unknown flags", start)
    if not flags & INDEPENDENT:
        raise CorruptRecordsError("lz4 frame has blocks that depend on each other", start)
    if sizes not in BLOCK_SIZES:
        raise CorruptRecordsError("lz4 frame has an unknown block size", start)
    descriptor = bytes((flags, sizes))
    if flags & CONTENT_SIZE:
        descriptor += windows.take(CONTENT_SIZE_SIZE)
    if windows.take(1)[0] != header_checksum(V0 + 1, descriptor) and magic != V0:
        raise CorruptRecordsError("lz4 header checksum does not match", start)
    yield from _blocks(windows, BLOCK_SIZES[sizes], bool(flags & BLOCK_CHECKSUM))
    if flags & CONTENT_CHECKSUM:
        windows.take(WORD.size)


def _blocks(windows: Windows, size_max: int, checksums: bool) -> Iterator[Buffer]:
    target = bytearray()
    while True:
        start = windows.position
        word: int = WORD.unpack(windows.take(WORD.size))[0]
        size = word & ~STORED
        if size == 0:
            return
        if size > size_max:
            raise CorruptRecordsError("lz4 block is larger than its frame allows", start)
        item = windows.take(size + WORD.size if checksums else size)
        block = item[:size]
        if checksums and xxh32_intdigest(block) != WORD.unpack_from(item, size)[0]:
            raise CorruptRecordsError("lz4 block checksum does not match", start)
        if word & STORED:
            yield block
            continue
        room = min(size_max, EXPANSION_MAX * size)
        if len(target) < room:
            target = bytearray(room)
        try:
            written = cramjam.lz4.decompress_block_into(block, target, output_len=len(target))
        except cramjam.DecompressionError:
            raise CorruptRecordsError("lz4 block is damaged", start) from None
        yield memoryview(target)[:written]


def decompress(data: Buffer, limit: int, magic: int) -> Buffer | None:
    """Decompresses a frame of one compressed block as a whole, as Kafka writes it up to 64 KiB."""
    size = len(data)
    header = data[: len(HEADER_RIGHT)]
    if (header == HEADER_RIGHT or (magic == V0 and header == HEADER_WRONG)) and size > BLOCK_AT:
        block_end = size - len(END_MARK)
        block_size = WORD.unpack_from(data, len(HEADER_RIGHT))[0]
        is_whole = block_size == block_end - BLOCK_AT and data[block_end:] == END_MARK
        if is_whole and block_size <= BLOCK_SIZE:
            try:
                block: bytes = lz4.block.decompress(
                    data[BLOCK_AT:block_end], uncompressed_size=min(limit, BLOCK_SIZE)
                )
            except lz4.block.LZ4BlockError:
                pass  # damaged, or larger than the limit: decided below
            else:
                return block
    return gather(pieces(whole(data, NAME), magic), limit)


def _framed(data: Buffer, block: Buffer) -> tuple[bytes, Buffer]:
    """A block's size word and its bytes, uncompressed if compressing gains nothing."""
    size = len(block)
    if size < len(data):
        return WORD.pack(size), block
    return WORD.pack(STORED | len(data)), data


def _block(data: Buffer) -> tuple[bytes, Buffer]:
    """A block identical to that of Kafka's compressor."""
    return _framed(data, memoryview(cramjam.lz4.compress_block(data, store_size=False)))


def _fast_block(data: Buffer) -> tuple[bytes, Buffer]:
    """A block, compressed in half the time to some per cent more bytes."""
    block = lz4.block.compress(data, mode="fast", acceleration=FAST_ACCELERATION, store_size=False)
    return _framed(data, block)


def _high_block(level: int) -> MakeBlock:
    """Blocks that take longer to compress and are smaller."""

    def block(data: Buffer) -> tuple[bytes, Buffer]:
        compressed = lz4.block.compress(
            data, mode="high_compression", compression=level, store_size=False
        )
        return _framed(data, compressed)

    return block


def _block_of(compression_level: CodecLevel) -> MakeBlock:
    if compression_level == "fast":
        return _fast_block
    if compression_level in ("kafka", KAFKA_LEVEL):
        return _block
    return _high_block(int(compression_level))  # above 12 as 12, in liblz4 and so in Kafka


def compress(data: Buffer, magic: int, compression_level: CodecLevel) -> bytes:
    header = HEADER_WRONG if magic == V0 else HEADER_RIGHT
    if 0 < len(data) <= BLOCK_SIZE:
        return b"".join((header, *_block_of(compression_level)(data), END_MARK))
    return open_encoder(magic, compression_level).all(data)


def open_encoder(magic: int, compression_level: CodecLevel) -> BlockEncoder:
    header = HEADER_WRONG if magic == V0 else HEADER_RIGHT
    return BlockEncoder(header, BLOCK_SIZE, _block_of(compression_level), END_MARK)
