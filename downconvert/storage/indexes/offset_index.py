"""The offset index of a segment: it maps an offset to the position where a scan for it begins.

An entry is an offset (relative to the segment's, 4 bytes) and a position in the log (4 bytes). Both
rise. The meaning of the offset has changed. Brokers up to 1.1 wrote the first offset of an append,
2.8 wrote its last one, and 3.9 and recovery write the last one of the batch at that position. With
all of them, batches before the position are below the offset. So a lookup returns only where to
begin a scan.

Not here: adding entries (index_builder.py), the scan (segment.py)."""

from bisect import bisect_right
from struct import Struct
from typing import Final

from downconvert.storage.errors import CorruptIndexError

from .segment_index import SegmentIndex

ENTRY: Final = Struct(">ii")  # offset - base offset, position
RELATIVE_MAX: Final = 2**31 - 1
POSITION_BITS: Final = 32
POSITION_MASK: Final = 2**POSITION_BITS - 1


class OffsetIndex(SegmentIndex):
    """Entries (offset, position), sorted by both."""

    __slots__ = ()

    ENTRY = ENTRY

    @property
    def is_full(self) -> bool:
        return self.file.count >= self.file.capacity

    @property
    def last_offset(self) -> int:
        """The offset of the last entry, or the base offset if there is none."""
        return self.entry(len(self) - 1)[0] if len(self) else self.base_offset

    def entry(self, slot: int) -> tuple[int, int]:
        """Offset and position. ValueError: there is no such entry."""
        relative, position = ENTRY.unpack(self.file.entry(slot))
        return self.base_offset + relative, position

    def offset_at(self, slot: int) -> int:
        return self.entry(slot)[0]

    def lookup(self, offset: int) -> tuple[int, int]:
        """Offset and position of the last entry not above `offset`; (base offset, 0) if there is
        none."""
        # An entry read as one integer sorts by its offset.
        key = (offset - self.base_offset) << POSITION_BITS | POSITION_MASK
        slot = self._search.floor(key, self.file.count)
        if slot < 0:
            return self.base_offset, 0
        relative, position = ENTRY.unpack_from(self.file.view, slot * ENTRY.size)
        return self.base_offset + relative, position

    def upper_bound(self, position: int, size: int) -> int | None:
        """The offset of the first entry whose position is not below `position + size`, or None.

        A read of that many bytes from there returns only records below that offset."""
        end = position + size
        slot = bisect_right(range(len(self)), end - 1, key=lambda slot: self.entry(slot)[1])
        return self.entry(slot)[0] if slot < self.file.count else None

    def append(self, offset: int, position: int) -> None:
        """ValueError: the index is full, or the offset is not above the last one or more than 31
        bits above the base offset."""
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_MAX:
            raise ValueError(f"offset {offset} does not fit an index of base {self.base_offset}")
        if len(self) and offset <= self.last_offset:
            raise ValueError(f"offset {offset} is not above the last entry's {self.last_offset}")
        self.file.append(ENTRY.pack(relative, position))
        self._search.appended(relative << POSITION_BITS | position)

    def check(self) -> None:
        """Kafka's sanity check. CorruptIndexError: it fails."""
        self.check_size()
        path = self.file.path
        if len(self) and self.last_offset < self.base_offset:
            raise CorruptIndexError("its last offset is below the segment's", str(path))
