"""Where records are read from: a range of bytes that says how long it is and reads into a window.

Everything that reads a log takes a `Records`, and none of it asks whether that is a file or memory.

Not here: the two of them (file_records.py, memory_records.py), what a header holds (batch.py)."""

from collections.abc import Iterator
from typing import Final, Protocol, Self

from records.batch import SIZE_AT, BatchHeader, entry_size
from records.errors import CorruptRecordsError
from records.formats import BATCH_HEADER_SIZE, ENTRY_HEAD_SIZE, PREFIX, SIZE_FIELD

# One read serves the headers of some twenty small batches, and costs little more than 61 bytes
# where batches are large and it serves one. A page, so that bodies stay on the disk.
WINDOW_SIZE: Final = 4096

# Kafka's FileLogInputStream ignores up to so many bytes at the end: they hold no whole entry.
IGNORED_TAIL_SIZE: Final = ENTRY_HEAD_SIZE

# A range's size is fixed when it is made. The reason of the error where the file has shrunk since.
TRUNCATED: Final = "file was truncated while it was read"


class Records(Protocol):
    """A range of bytes that holds entries of a log, one after the other; the last may be torn.

    Positions count from the beginning of the range; those in errors are `origin` + position."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def origin(self) -> int:
        """The position of the first byte in the file (or buffer) that this is a range of."""

    @property
    def name(self) -> str:
        """What to call it in a message to a person: a file's path."""

    @property
    def view(self) -> memoryview | None:
        """All of the bytes, where they can be looked at without reading; else None."""

    def read_into(self, target: memoryview, position: int) -> int:
        """Reads into `target` from `position` on. The bytes read: fewer only at the end."""

    def batches(self) -> Iterator[BatchHeader]:
        """The headers of the whole entries, in their order. Bodies are not read."""

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
    """Reads header after header, by the rules of Kafka's file stream: what `Records.batches` does,
    here from any entry on.

    A tail of up to 17 bytes, and an entry that runs past the end, end it without an error. A size
    that no entry has, and an unknown magic or codec, are errors (rules 1-3 of a log, kernel.py)."""
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
            entry_size(window, at, origin + position)  # what has no such magic is no torn entry
            return
        header = parse(window, at, position, origin)
        yield header
        position += header.size
