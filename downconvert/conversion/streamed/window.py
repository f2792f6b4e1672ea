"""The part of a log that is in memory while an item is converted.

Not here: converting the bytes (compressed.py, oversize.py)."""

from downconvert.conversion import buffers
from downconvert.conversion.buffers import NO_BUFFER, NO_VIEW
from records.errors import CorruptRecordsError
from records.files.source import TRUNCATED, Records
from records.kernel import Buffer


class LogWindow:
    """`source[start:filled]` is the log from `position` on.

    For records in memory the window covers all of them, and nothing is read. `item_size`: bytes of
    the item at `position` that is being converted."""

    __slots__ = (
        "_buffer",
        "filled",
        "item_size",
        "position",
        "records",
        "size",
        "source",
        "start",
        "view",
    )

    def __init__(self, records: Records, size: int) -> None:
        """`size`: bytes read at a time. The first `read` takes the buffer."""
        self.records = records
        self.size = size
        self.position = self.item_size = 0
        self.start = self.filled = 0
        self._buffer = NO_BUFFER
        self.view = NO_VIEW
        self.source: Buffer = NO_BUFFER

    @property
    def held_bytes(self) -> int:
        """The size of its buffer."""
        return len(self._buffer)

    def read(self, position: int, size: int | None = None) -> None:
        """Moves to `position`, and reads up to `size` bytes from there. Raises CorruptRecordsError
        if the file became shorter."""
        self.position = position
        if self.records.view is not None:
            self.source = self.view = self.records.view
            self.start, self.filled = position, len(self.source)
        else:
            if not self._buffer:
                self.source = self._buffer = buffers.take(self.size)
                self.view = memoryview(self._buffer)
            self.start, self.filled = 0, self.records.read_into(self.view[:size], position)
        if self.start >= self.filled:
            raise self.damaged(TRUNCATED)

    def release(self) -> None:
        """Releases the buffer."""
        buffers.release(self._buffer)
        self.start = self.filled = 0
        self.source = self._buffer = NO_BUFFER
        self.view = NO_VIEW

    def check_whole(self) -> None:
        """Raises CorruptRecordsError if the file has become shorter since the range was made."""
        expected = min(self.size, self.records.size - self.position)
        if self.records.view is None and self.filled - self.start < expected:
            raise self.damaged(TRUNCATED)

    def passed(self, size: int) -> None:
        """Moves past a converted item of this many bytes."""
        self.position += size
        self.item_size = 0

    def damaged(self, reason: str) -> CorruptRecordsError:
        """The error for damage to the item at `position`."""
        return CorruptRecordsError(reason, self.records.origin + self.position)
