"""The compressed bytes of a batch or message, and decompressing them.

All readers of compressed records use this. It finds the compressed bytes in their entry. It
decompresses small entries at once and large ones through a window, so that a decompression bomb
takes no more memory.

Not here: the codecs (codecs), offsets in a compressed message (inner_offsets.py), the use of the
bytes (reader.py; downconvert)."""

from collections.abc import Iterator
from typing import Final, NamedTuple, Self

from records.batch import BatchHeader
from records.codecs import Decoder, decompress, open_decoder
from records.errors import CorruptRecordsError
from records.files.source import Records
from records.files.window import Stretch, Window
from records.formats import BATCH_HEADER_SIZE, V2, Codec
from records.kernel import Buffer
from records.units import KiB

from .wrapper import value_range

STEP_SIZE: Final = 32 * KiB  # bytes that one step skips
RUNS_PAST: Final = "record runs past its batch"


class CompressedBytes(NamedTuple):
    """The compressed bytes of an entry: from `start` to `end` of the entry at `position` of the
    records."""

    records: Records
    position: int
    start: int
    end: int
    codec: Codec
    magic: int

    @classmethod
    def of(cls, records: Records, header: BatchHeader) -> Self:
        """The compressed bytes of a batch or message. CorruptRecordsError: the entry cannot have
        any."""
        position, magic = header.position, header.magic
        if magic == V2:
            if header.records_count is not None and header.records_count < 0:
                raise CorruptRecordsError("negative record count", records.origin + position)
            return cls(records, position, BATCH_HEADER_SIZE, header.size, header.codec, magic)
        if header.codec is Codec.ZSTD:
            reason = "codec does not exist in this message format"
            raise CorruptRecordsError(reason, records.origin + position)
        start, end = value_range(records, position, header.size, magic)
        return cls(records, position, start, end, header.codec, magic)

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def error_position(self) -> int:
        """The position of the entry in the file, for errors."""
        return self.records.origin + self.position

    def at_once(self, data: Buffer, limit: int) -> Buffer | None:
        """The decompressed bytes. `data`: the compressed bytes, in memory.

        None if they are more than `limit` bytes or damaged. Then use `open`, which yields the good
        bytes before the damage."""
        try:
            return decompress(self.codec, data, limit=limit, magic=self.magic)
        except CorruptRecordsError:
            return None

    def open(self, buffer: memoryview) -> "Decompressed":
        """The decompressed bytes as a stream. `buffer` holds compressed bytes. Use it for nothing
        else until the stream has been read."""
        first = self.position + self.start
        stretch = Stretch(self.records, first, self.position + self.end)

        def pull() -> memoryview:
            return buffer[: stretch.read_into(buffer)]

        decoder = open_decoder(self.codec, pull, magic=self.magic)
        return Decompressed(decoder, self.error_position)


class Decompressed:
    """The decompressed bytes of an entry, read forward.

    Errors have the position of the entry, because a position in compressed data cannot be found."""

    __slots__ = ("_decoder", "_position")

    def __init__(self, decoder: Decoder, position: int) -> None:
        self._decoder = decoder
        self._position = position

    def read_into(self, target: memoryview) -> int:
        try:
            return self._decoder.read_into(target)
        except CorruptRecordsError as error:
            raise CorruptRecordsError(error.reason, self._position) from error


class DecompressedWindow(Window):
    """A window over decompressed bytes. `position` is that of the entry in the file."""

    __slots__ = ()

    @classmethod
    def within(cls, buffer: Buffer, start: int, end: int, position: int) -> Self:
        """A window over decompressed bytes that are all in memory: `buffer[start:end]`."""
        window = cls(None, buffer, position)
        window.start, window.filled, window.base = start, end, -start
        return window

    def skip_to(self, position: int) -> None:
        """Continues at this position of the decompressed bytes, which may be after the window.

        CorruptRecordsError: they end before it."""
        index = position - self.base
        if index <= self.filled:
            self.start = index
            return
        skip = index - self.filled
        self.base, self.start, self.filled = position, 0, 0
        while skip:
            read = 0
            if self._stream is not None:
                read = self._stream.read_into(self.view[: min(skip, len(self.view))])
            if not read:
                raise CorruptRecordsError(RUNS_PAST, self.position)
            skip -= read

    def skip_in_steps(self, position: int) -> Iterator[int]:
        """As `skip_to`. Yields 0 after each step but the last."""
        while position - self.base - self.start > STEP_SIZE:
            self.skip_to(self.base + self.start + STEP_SIZE)
            yield 0
        self.skip_to(position)

    def damage(self, reason: str, index: int) -> CorruptRecordsError:
        return CorruptRecordsError(reason, self.position, inside=self.base + index)
