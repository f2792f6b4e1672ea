"""The end of a log that is being written: how far it goes, and which offset is next.

Only headers are read, and only those behind what an index or an earlier look has told. A batch that
is not whole yet does not count; neither does anything behind damage.

Not here: cutting a torn tail off (recovery.py)."""

from typing import Final

from records import CorruptRecordsError
from records.formats import ENTRY_HEAD_SIZE

from .names import OFFSET_MAX
from .segment import Segment

# The beginning of an entry, as a file has it that was extended beforehand (`preallocate=true`).
NOT_WRITTEN: Final = bytes(ENTRY_HEAD_SIZE)


class Tail:
    """Where the last segment ends. `damage`: what is there instead of an end, if something is."""

    __slots__ = ("damage", "next_offset", "position", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.position = 0  # behind the last whole batch
        self.next_offset = segment.base_offset
        self.damage: CorruptRecordsError | None = None

    def advance(self) -> None:
        """Looks at what has been appended since the last time."""
        size = self.segment.size
        if 0 < self.position <= size:
            self._scan(self.position, size)
            if self.damage is None:
                return
        # The first look; or the log was truncated, and the end is not where it was.
        self.next_offset = self.segment.base_offset
        self._scan(self.segment.slice_from(OFFSET_MAX, size).origin, size)

    def _scan(self, position: int, size: int) -> None:
        records = self.segment.slice(position, size)
        self.position = position
        self.damage = None
        try:
            for header in records.batches():
                self.position = records.origin + header.position + header.size
                self.next_offset = max(self.next_offset, header.last_offset + 1)
        except CorruptRecordsError as error:
            head = bytearray(ENTRY_HEAD_SIZE)
            read = self.segment.slice(self.position, size).read_into(memoryview(head), 0)
            if read == len(head) and head != NOT_WRITTEN:
                self.damage = error


def next_offset_of(segment: Segment) -> int:
    """The offset behind a segment's last batch."""
    tail = Tail(segment)
    tail.advance()
    return tail.next_offset
