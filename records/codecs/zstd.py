"""zstd: this file reads frames block by block, and the library decompresses the blocks.

So each call of the library expands a limited input, one block of 128 KiB, and a truncated stream
can be distinguished from a finished one.

Memory: the window that a frame requires, up to 8 MiB. A frame that requires more gets a window of 8
MiB, which is enough if its content is not larger: at Kafka's level 22 even the smallest batch
requires 128 MiB. If the content turns out to be larger, the frame is refused. (The library would
not notice a match that reaches back too far: it would read overwritten bytes.)

Contexts are expensive to make. Each thread keeps its contexts for whole data.

Sources: RFC 8878, zstd-jni's ZstdInputStreamNoFinalizer (Kafka's reader)."""

import threading
from collections.abc import Callable, Iterator
from typing import Final

import zstandard

from records.errors import CorruptRecordsError
from records.formats import V2
from records.kernel import Buffer

from .stream import CodecLevel, Encoder, Windows, gather, whole
from .zstd_frame import (
    BLOCK_HEAD_SIZE,
    DESCRIPTOR_AT,
    FIELDS_AT,
    HEADER_SIZES,
    MAGIC,
    REPEATED,
    RESERVED,
    SKIPPABLE_MAGIC,
    SKIPPABLE_MASK,
    UNKNOWN,
    WINDOW_SIZE_MAX,
    WORD,
    FrameHeader,
    content_bound,
)

NAME: Final = "zstd"
DAMAGED: Final = "zstd data is damaged"
LEVELS: Final[dict[CodecLevel, int]] = {"fast": 1, "kafka": 3}


def _decompressor() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=WINDOW_SIZE_MAX)


class _Contexts(threading.local):
    """This thread's contexts for whole data."""

    def __init__(self) -> None:
        self.decompressor = _decompressor()
        self.compressors: dict[CodecLevel, zstandard.ZstdCompressor] = {
            name: zstandard.ZstdCompressor(level=level) for name, level in LEVELS.items()
        }


_contexts = _Contexts()


def pieces(windows: Windows, magic: int) -> Iterator[Buffer]:
    """The content of all frames, one after the other. No data is no content.

    Kafka's rules, which are the library's: checksums and content sizes are compared, skippable
    frames are skipped, and only a frame may follow a frame. Dictionaries are refused, because Kafka
    has none."""
    if magic < V2:
        raise CorruptRecordsError("codec does not exist in this message format", windows.position)
    decompressor = _decompressor()
    while head := windows.peek(WORD.size):
        start = windows.position
        if len(head) < WORD.size:
            raise windows.ended()
        if head == MAGIC:
            yield from _frame(windows, start, decompressor)
        elif WORD.unpack(head)[0] & SKIPPABLE_MASK == SKIPPABLE_MAGIC:
            windows.use(WORD.size)
            windows.skip(WORD.unpack(windows.take(WORD.size))[0])
        else:
            raise CorruptRecordsError("not a zstd frame", start)


def _frame(
    windows: Windows, start: int, decompressor: zstandard.ZstdDecompressor
) -> Iterator[bytes]:
    head = windows.peek(FIELDS_AT)
    if len(head) < FIELDS_AT:
        raise windows.ended()
    descriptor = head[DESCRIPTOR_AT]
    if descriptor & RESERVED:
        raise CorruptRecordsError("zstd frame has an unknown flag", start)
    header = FrameHeader.parse(bytes(windows.take(HEADER_SIZES[descriptor])))
    if header.has_dictionary:
        raise CorruptRecordsError("zstd frame needs a dictionary", start)
    frame = decompressor.decompressobj()
    _fed(frame.decompress, header.encoded, start)
    made = 0
    is_last = False
    while not is_last:
        block_start = windows.position
        head = windows.peek(BLOCK_HEAD_SIZE)
        if len(head) < BLOCK_HEAD_SIZE:
            raise windows.ended()
        bits = int.from_bytes(head, "little")
        is_last, kind, size = bool(bits & 1), bits >> 1 & 3, bits >> 3
        if kind == UNKNOWN:
            raise CorruptRecordsError("zstd block is of an unknown kind", block_start)
        if size > header.block_size_max:
            raise CorruptRecordsError("zstd block is larger than its frame allows", block_start)
        block = windows.take(BLOCK_HEAD_SIZE + (1 if kind == REPEATED else size))
        content = _fed(frame.decompress, block, block_start)
        made += len(content)
        if header.is_window_cut and made > WINDOW_SIZE_MAX:
            raise CorruptRecordsError("zstd frame needs a window above 8 MiB", start)
        yield content
    if header.has_checksum:
        yield _fed(frame.decompress, windows.take(WORD.size), start)


def _fed(frame: Callable[[Buffer], bytes], data: Buffer, position: int) -> bytes:
    """The library's output for a frame's next bytes."""
    try:
        return frame(data)
    except zstandard.ZstdError as error:
        if "not enough memory" in str(error):
            raise MemoryError(str(error)) from None
        raise CorruptRecordsError(DAMAGED, position) from None


def decompress(data: Buffer, limit: int, magic: int) -> Buffer | None:
    """Decompresses one whole frame at once, if its blocks cannot expand too much."""
    bound = min(limit, content_bound(data))
    if bound > 0 and magic >= V2:
        try:
            # The library would not read the blocks of a frame that claims to be empty.
            if 0 != zstandard.frame_content_size(data) <= bound:
                return _contexts.decompressor.decompress(data, max_output_size=bound)
        except zstandard.ZstdError:
            pass  # damaged, or larger than the limit: decided below
    return gather(pieces(whole(data, NAME), magic), limit)


def compress(data: Buffer, magic: int, compression_level: CodecLevel) -> bytes:
    _check_writable(magic)
    kept = _contexts.compressors.get(compression_level)
    return (kept or zstandard.ZstdCompressor(level=_level(compression_level))).compress(data)


def open_encoder(magic: int, compression_level: CodecLevel) -> Encoder:
    _check_writable(magic)
    return _Encoder(compression_level)


def _level(compression_level: CodecLevel) -> int:
    if isinstance(compression_level, int):
        return compression_level
    return LEVELS[compression_level]


def _check_writable(magic: int) -> None:
    if magic < V2:
        raise ValueError(f"ZStandard compression is not supported for magic {magic}")


class _Encoder:
    __slots__ = ("_stream",)

    def __init__(self, compression_level: CodecLevel) -> None:
        self._stream = zstandard.ZstdCompressor(level=_level(compression_level)).compressobj()

    def write(self, data: Buffer) -> bytes:
        return self._stream.compress(data)

    def finish(self) -> bytes:
        return self._stream.flush()
