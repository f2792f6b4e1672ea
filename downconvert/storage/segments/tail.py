"""The end of a log that is being written: its position, and the next offset.

Reads only headers, and only those after the last index entry or the last call. An incomplete batch
does not count, and neither does anything after damage.

Not here: cutting a torn tail off (recovery.py)."""

from typing import Final

from downconvert.storage.names import OFFSET_MAX
from records import BatchHeader, CorruptRecordsError
from records.formats import BATCH_HEADER_SIZE, ENTRY_HEAD_SIZE

from .segment import Segment

# The head of an entry in a file that was extended beforehand (`preallocate=true`).
NOT_WRITTEN: Final = bytes(ENTRY_HEAD_SIZE)


class Tail:
    """The end of the last segment. `damage`: the damage in place of the next batch, if any."""

    __slots__ = ("_last", "damage", "next_offset", "position", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.position = 0  # after the last whole batch
        self.next_offset = segment.base_offset
        self.damage: CorruptRecordsError | None = None
        self._last = (0, b"")  # position and head of the last whole batch

    def advance(self) -> bool:
        """Looks for batches appended since the last call. False if the log was, or may have been,
        truncated since."""
        size = self.segment.size
        is_same_log = 0 < self.position <= size and self._is_unchanged(size)
        if is_same_log:
            if size == self.position:
                self.damage = None
            else:
                self._scan(self.position, size)
            if self.damage is None:
                return True
        # This is the first call, or the last batch is no longer in its place.
        was_empty = not self.position
        if not (is_same_log or was_empty):
            # The file was truncated, and may be as long again by now. It is reopened, so that
            # cached bytes are not used for the current ones.
            self.segment.release()
            size = self.segment.size
        self.next_offset = self.segment.base_offset
        self._last = (0, b"")
        self._scan(self.segment.slice_from(OFFSET_MAX, size).origin, size)
        return is_same_log or was_empty

    def _is_unchanged(self, size: int) -> bool:
        """Whether the last batch is unchanged. A truncated log may be as long again, but then that
        batch has another checksum or leader epoch."""
        position, head = self._last
        return self._bytes(position, min(size, position + len(head))) == head

    def _bytes(self, position: int, end: int) -> bytes:
        return self.segment.bytes_at(position, max(0, end - position))

    def _scan(self, position: int, size: int) -> None:
        records = self.segment.slice(position, size)
        self.position = position
        self.damage = None
        last: BatchHeader | None = None
        try:
            for last in records.batches():
                self.position = records.origin + last.position + last.size
                self.next_offset = max(self.next_offset, last.last_offset + 1)
        except CorruptRecordsError as error:
            head = bytearray(ENTRY_HEAD_SIZE)
            read = self.segment.slice(self.position, size).read_into(memoryview(head), 0)
            if read == len(head) and head != NOT_WRITTEN:
                self.damage = error
        if last is not None:
            at = records.origin + last.position
            self._last = (at, self._bytes(at, min(self.position, at + BATCH_HEADER_SIZE)))


def next_offset_of(segment: Segment) -> int:
    """The offset after a segment's last batch."""
    tail = Tail(segment)
    tail.advance()
    return tail.next_offset
