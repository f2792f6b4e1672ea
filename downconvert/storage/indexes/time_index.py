"""The time index of a segment: it maps a timestamp to the offset where a scan for it begins.

An entry is the highest timestamp so far (8 bytes), and the offset of its batch (relative to the
segment's, 4 bytes). Timestamps rise, offsets do not decrease. The last entry of a rolled segment
has the segment's highest timestamp. Without timestamps in records, the file has no entries. Brokers
before 0.10.1 have no such file.

Not here: adding entries (index_builder.py), the scan (segment.py)."""

from struct import Struct
from typing import Final

from downconvert.storage.errors import CorruptIndexError
from records.formats import NO_TIMESTAMP

from .offset_index import RELATIVE_MAX
from .segment_index import SegmentIndex

ENTRY: Final = Struct(">qi")  # timestamp, offset - base offset


class TimeIndex(SegmentIndex):
    """Entries (timestamp, offset), sorted by both."""

    __slots__ = ()

    ENTRY = ENTRY

    @property
    def is_full(self) -> bool:
        """Whether only one entry is free. It is kept for the highest timestamp of the rolled
        segment."""
        return self.file.count >= self.file.capacity - 1

    @property
    def last(self) -> tuple[int, int]:
        """The last entry: timestamp and offset; (-1, base offset) if there is none."""
        return self.entry(len(self) - 1) if len(self) else (NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> tuple[int, int]:
        """Timestamp and offset. ValueError: there is no such entry."""
        timestamp, relative = ENTRY.unpack(self.file.entry(slot))
        return timestamp, self.base_offset + relative

    def offset_at(self, slot: int) -> int:
        return self.entry(slot)[1]

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry whose timestamp is not above `timestamp`; (-1, base offset) if there is
        none."""
        slot = self._search.floor(timestamp, self.file.count)
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        found, relative = ENTRY.unpack_from(self.file.view, slot * ENTRY.size)
        return found, self.base_offset + relative

    def append(self, timestamp: int, offset: int, *, last: bool = False) -> None:
        """Adds an entry if its timestamp is above the last one's. Ignores an equal timestamp.

        `last`: the entry may use the place that `is_full` keeps free. ValueError: the index is
        full, the timestamp is lower than the last one, or the offset is more than 31 bits above the
        base offset."""
        if self.file.count >= self.file.capacity - (0 if last else 1):
            raise ValueError(f"{self.file.path.name} is full")
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_MAX:
            raise ValueError(f"offset {offset} does not fit an index of base {self.base_offset}")
        last_timestamp, last_offset = self.last
        if len(self) and offset < last_offset:
            raise ValueError(f"offset {offset} is below the last entry's {last_offset}")
        if len(self) and timestamp < last_timestamp:
            raise ValueError(f"timestamp {timestamp} is below the last entry's {last_timestamp}")
        if timestamp > last_timestamp:
            self.file.append(ENTRY.pack(timestamp, relative))
            self._search.appended(timestamp)

    @property
    def why_corrupt(self) -> str:
        """Why its entries cannot be right; empty if Kafka's sanity check finds nothing."""
        last_timestamp, last_offset = self.last
        if self.file.is_torn:
            return "it ends within an entry"
        if len(self) and last_timestamp < self.entry(0)[0]:
            return "its last timestamp is below its first"
        return "its last offset is below the segment's" if last_offset < self.base_offset else ""

    def check(self) -> None:
        """Kafka's sanity check. CorruptIndexError: it fails."""
        self.check_size()
        reason = self.why_corrupt
        if reason:
            raise CorruptIndexError(reason, str(self.file.path))
