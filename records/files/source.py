"""The source of records: a range of bytes with a known size, which is read into a window.

All readers of a log take a `Records`, whether it is a file or memory.

Not here: the two kinds (file_records.py, memory_records.py), the fields of a header (batch.py)."""

from collections.abc import Iterator
from typing import Final, Protocol, Self

from records.batch import SIZE_AT, BatchHeader, entry_size
from records.errors import CorruptRecordsError
from records.formats import BATCH_HEADER_SIZE, ENTRY_HEAD_SIZE, PREFIX, SIZE_FIELD

# One read of a page serves the headers of some twenty small batches. If batches are large, it
# serves one header and costs little more than reading 61 bytes.
WINDOW_SIZE: Final = 4096

# Kafka's FileLogInputStream ignores up to this many bytes at the end: they contain no whole entry.
IGNORED_TAIL_SIZE: Final = ENTRY_HEAD_SIZE

# A range's size is fixed when it is made. This is the error if the file has shrunk since.
TRUNCATED: Final = "file was truncated while it was read"


class Records(Protocol):
    """A range of bytes with the entries of a log, one after the other. The last may be torn.

    Positions are relative to the range. Those in errors are `origin` + position."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def origin(self) -> int:
        """The position of the first byte in the file (or buffer) that this is a range of."""

    @property
    def name(self) -> str:
        """Its name in messages: a file's path."""

    @property
    def view(self) -> memoryview | None:
        """All of the bytes, if they are in memory; else None."""

    def read_into(self, target: memoryview, position: int) -> int:
        """Reads into `target` from `position` on. Returns the bytes read; fewer only at the end."""

    def batches(self) -> Iterator[BatchHeader]:
        """The headers of the whole entries, in order. Bodies are not read."""

    def slice(self, position: int, size: int) -> Self:
        """A range of this one, cut off at its end. ValueError: negative, or begins after it."""


def check_slice(records: Records, position: int, size: int) -> None:
    """The rules of Kafka's FileRecords.slice."""
    if position < 0:
        raise ValueError(f"a slice at {position}: negative position")
    if size < 0:
        raise ValueError(f"a slice of {size} bytes: negative size")
    if position > records.size:
        raise ValueError(f"a slice at {position} begins after the {records.size} bytes of records")


def read_headers(records: Records, position: int = 0) -> Iterator[BatchHeader]:
    """Reads header after header from the entry at `position` on, by the rules of Kafka's file
    stream. (`Records.batches` begins with the first entry.)

    A tail of up to 17 bytes, or an entry that runs past the end, ends the iteration without an
    error. An invalid size, and an unknown magic or codec, are errors (rules 1-3 of a log,
    kernel.py)."""
    size, origin = records.size, records.origin
    parse = BatchHeader.parse
    window, start, end = records.view, 0, size  # and the positions that the window holds
    if window is None:
        window, end = memoryview(bytearray(min(WINDOW_SIZE, size))), 0
    while (remaining := size - position) > IGNORED_TAIL_SIZE:
        head_end = position + min(BATCH_HEADER_SIZE, remaining)
        if head_end > end:
            start = position
            end = start + records.read_into(window[: min(WINDOW_SIZE, remaining)], start)
            if head_end > end:
                raise CorruptRecordsError(TRUNCATED, origin + position)
        at = position - start
        if PREFIX.size + SIZE_FIELD.unpack_from(window, at + SIZE_AT)[0] > remaining:
            entry_size(window, at, origin + position)  # raises if the magic is unknown
            return
        header = parse(window, at, position, origin)
        yield header
        position += header.size
