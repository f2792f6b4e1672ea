"""The part of a log that is in memory, and the position of the conversion.

Not here: converting the bytes (converter.py)."""

from records.errors import CorruptRecordsError
from records.files.source import TRUNCATED, Records
from records.kernel import Buffer, Transcoder

from . import buffers
from .buffers import NO_BUFFER, NO_VIEW


class LogWindow:
    """`source[start:filled]` is the log from `position` on.

    For records in memory the window is all of them, and nothing is read. `in_hand`: bytes from
    `position` on that are being converted as one entry."""

    __slots__ = (
        "_buffer",
        "_was_open",
        "filled",
        "in_hand",
        "is_all",
        "is_open",
        "position",
        "records",
        "size",
        "source",
        "start",
        "view",
    )

    def __init__(self, records: Records, size: int) -> None:
        """`size`: bytes read at a time. `open` takes the buffer."""
        self.records = records
        self.is_all = records.view is not None
        self.size = size
        self.position = self.in_hand = 0
        self.start = self.filled = 0
        self.is_open = self._was_open = False
        self._buffer = NO_BUFFER
        self.view = NO_VIEW
        self.source: Buffer = NO_BUFFER

    @property
    def buffer_bytes(self) -> int:
        """The size of its buffer, or 0 before the first `open`."""
        return self.size if self._was_open and not self.is_all else 0

    def open(self) -> None:
        """Takes the buffer if it has none."""
        if self.is_open:
            return
        self.is_open = self._was_open = True
        if self.records.view is not None:
            self.source = self.view = self.records.view
        else:
            self.source = self._buffer = buffers.take(self.size)
            self.view = memoryview(self._buffer)

    def release(self) -> None:
        """Releases the buffer. The first read after the next `open` begins at `position`."""
        buffers.release(self._buffer)
        self.is_open = False
        self.start = self.filled = 0
        self.source = self._buffer = NO_BUFFER
        self.view = NO_VIEW

    def read(self) -> None:
        """Reads from `position` on. Raises CorruptRecordsError if the file became shorter."""
        if self.is_all:
            self.start, self.filled = self.position, len(self.source)
        else:
            self.start, self.filled = 0, self.records.read_into(self.view, self.position)
        if self.start >= self.filled:
            raise self.damaged(TRUNCATED)

    def check_whole(self) -> None:
        """Raises CorruptRecordsError if less was read than there was when the range was made. Used
        if the window begins with an item that does not fit in it: that item is then not large."""
        expected = min(self.size, self.records.size - self.position)
        if not self.is_all and self.filled - self.start < expected:
            raise self.damaged(TRUNCATED)

    def advance(self, size: int) -> None:
        """Moves past bytes, which need not be in the window."""
        self.position += size
        self.start += size

    def damaged(self, reason: str) -> CorruptRecordsError:
        """The error for damage to the entry or record at `position`."""
        return CorruptRecordsError(reason, self.records.origin + self.position)

    def damage(self, transcoder: Transcoder) -> CorruptRecordsError:
        """The error for damage that the kernel found in the window."""
        reason, index = transcoder.damage or ("damaged", self.start)
        return CorruptRecordsError(reason, self.records.origin + self.position + index - self.start)
