"""snappy with Java's framing (xerial), or as one raw block from other clients.

Raw blocks are read, never written. Data without framing counts as one block, as in Kafka's reader.

Memory: a block may have any size in both framings. Up to `BLOCK_SIZE_MAX`, compressed and
decompressed, it is assembled and decompressed at once by the library. A larger one is decompressed
step by step (snappy_steps.py). Java writes blocks of 32 KiB (1 KiB before Kafka 0.11). A raw block
is a producer's whole batch, rarely more than 1 MiB.

Sources: snappy-java's SnappyInputStream and SnappyOutputStream, snappy's
format_description.txt."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

import cramjam

from records.errors import CorruptRecordsError
from records.kernel import Buffer
from records.units import KiB, MiB

from .blocks import BlockEncoder
from .snappy_steps import ALL, DAMAGED, block_in_steps, claimed_size
from .stream import CodecLevel, Windows, gather, whole

NAME: Final = "snappy"

MAGIC: Final = b"\x82SNAPPY\x00"
HEADER: Final = Struct(">8sii")  # magic, version, oldest version that can read it
VERSION: Final = 1
HEADER_WRITTEN: Final = HEADER.pack(MAGIC, VERSION, VERSION)
SIZE: Final = Struct(">i")  # before each block: its compressed bytes
MAGIC_AS_SIZE: Final[int] = SIZE.unpack_from(MAGIC)[0]
assert MAGIC_AS_SIZE < 0  # never a block's size, so a header differs from a block

BLOCK_SIZE: Final = 32 * KiB  # of snappy-java
BLOCK_SIZE_MAX: Final = 2 * MiB
# Three bytes, which encode a copy, become at most 64 bytes, so no data expands by more than this
# factor. A claimed size is checked against it before memory is allocated.
EXPANSION: Final = 64
EXPANSION_OF: Final = 3


def pieces(windows: Windows, _magic: int) -> Iterator[Buffer]:
    """The blocks, decompressed.

    Kafka's rules. Empty data is damage, but a header without a block is not. Data without the first
    8 bytes of a header, or with less than 16 bytes, is one raw block. The versions in the first
    header are ignored. A further header may replace a block. One to three bytes in place of a
    block's size end the data."""
    header = windows.peek(HEADER.size)
    if not header:
        raise CorruptRecordsError("snappy data is empty", 0)
    if not header.tobytes().startswith(MAGIC) or len(header) < HEADER.size:
        yield from _raw(windows)
        return
    windows.use(HEADER.size)
    while len(field := windows.peek(SIZE.size)) == SIZE.size:
        size = SIZE.unpack(field)[0]
        if size == MAGIC_AS_SIZE:
            _further_header(windows)
        elif size < 0:
            raise CorruptRecordsError("snappy block has a negative size", windows.position)
        else:
            yield from _framed(windows, size)


def _further_header(windows: Windows) -> None:
    start = windows.position
    magic, version, _ = HEADER.unpack(windows.take(HEADER.size))
    if magic != MAGIC:
        raise CorruptRecordsError("snappy block has a negative size", start)
    if version < VERSION:
        raise CorruptRecordsError("snappy header is of an unknown version", start)


def _framed(windows: Windows, size: int) -> Iterator[Buffer]:
    start = windows.position
    windows.use(SIZE.size)
    claimed, _ = claimed_size(windows, size, start)
    if max(size, claimed) > BLOCK_SIZE_MAX:
        yield from block_in_steps(windows, size, start)
    else:
        yield _block(windows.take(size), claimed, start)


def _raw(windows: Windows) -> Iterator[Buffer]:
    """One block, as long as the data."""
    start = windows.position
    claimed, _ = claimed_size(windows, ALL, start)
    if claimed > BLOCK_SIZE_MAX or len(block := windows.peek(BLOCK_SIZE_MAX + 1)) > BLOCK_SIZE_MAX:
        yield from block_in_steps(windows, ALL, start)
    else:
        windows.use(len(block))
        yield _block(block, claimed, start)


def _block(block: Buffer, claimed: int, start: int) -> Buffer:
    if claimed * EXPANSION_OF > len(block) * EXPANSION:
        raise CorruptRecordsError("snappy block claims more bytes than it can hold", start)
    target = bytearray(claimed)
    if not _decompress_into(block, target):
        raise CorruptRecordsError(DAMAGED, start)
    return target


def _decompress_into(block: Buffer, target: bytearray | memoryview) -> bool:
    """Whether the block is valid and fills the target."""
    try:
        return bool(cramjam.snappy.decompress_raw_into(block, target) == len(target))
    except cramjam.DecompressionError:
        return False


def decompress(data: Buffer, limit: int, magic: int) -> Buffer | None:
    """Decompresses framed blocks into one buffer, if none claims more than it can hold."""
    plan = _plan(memoryview(data))
    if plan is not None:
        blocks, size = plan
        if size > limit:
            return None
        target = bytearray(size)
        if _decompress_all(blocks, target):
            return target
    return gather(pieces(whole(data, NAME), magic), limit)


def _plan(data: Buffer) -> tuple[list[tuple[Buffer, int]], int] | None:
    """The blocks with their claimed sizes, and the sum of these sizes. None if the data is
    unusual."""
    size = len(data)
    if size < HEADER.size or data[: len(MAGIC)] != MAGIC:
        return None
    blocks = []
    at = HEADER.size
    total = 0
    while size - at >= SIZE.size:
        block_size = SIZE.unpack_from(data, at)[0]
        at += SIZE.size
        if not 0 < block_size <= size - at:
            return None
        block = data[at : at + block_size]
        at += block_size
        try:
            claimed = cramjam.snappy.decompress_raw_len(block)
        except cramjam.DecompressionError:
            return None
        if claimed * EXPANSION_OF > block_size * EXPANSION:
            return None
        blocks.append((block, claimed))
        total += claimed
    return blocks, total


def _decompress_all(blocks: list[tuple[Buffer, int]], target: bytearray) -> bool:
    if len(blocks) == 1:
        return _decompress_into(blocks[0][0], target)
    view = memoryview(target)
    at = 0
    for block, claimed in blocks:
        if not _decompress_into(block, view[at : at + claimed]):
            return False
        at += claimed
    return True


def compress(data: Buffer, magic: int, compression_level: CodecLevel) -> bytes:
    if 0 < len(data) <= BLOCK_SIZE:
        return b"".join((HEADER_WRITTEN, *_written(data)))
    return open_encoder(magic, compression_level).all(data)


def open_encoder(_magic: int, _level: CodecLevel) -> BlockEncoder:
    return BlockEncoder(HEADER_WRITTEN, BLOCK_SIZE, _written)


def _written(data: Buffer) -> tuple[bytes, Buffer]:
    block = memoryview(cramjam.snappy.compress_raw(data))
    return SIZE.pack(len(block)), block
