"""The offset index of a segment: from an offset to a place in the log from which to look for it.

An entry is an offset (relative to the segment's, 4 bytes) and a position in the log (4 bytes), both
rising. Which offset that is has changed: brokers up to 1.1 wrote the first one of an append, 2.8
its last one, 3.9 and recovery the last one of the batch at that position. In all of them what lies
before the position is below the offset, so a lookup says only: start here, and scan on.

Not here: when an entry is due (index_builder.py), the scan (segment.py)."""

from bisect import bisect_right
from pathlib import Path
from struct import Struct
from typing import Final

from .entry_file import INDEX_SIZE_MAX, EntryFile
from .errors import CorruptIndexError
from .files import Files
from .search import WarmSearch

ENTRY: Final = Struct(">ii")  # offset - base offset, position
RELATIVE_MAX: Final = 2**31 - 1
POSITION_BITS: Final = 32
POSITION_MASK: Final = 2**POSITION_BITS - 1


class OffsetIndex:
    """Entries (offset, position), sorted by both."""

    __slots__ = ("_entries", "_search", "base_offset")

    def __init__(self, entries: EntryFile, base_offset: int) -> None:
        self.base_offset = base_offset
        self._entries = entries
        self._search = WarmSearch(entries.view, ENTRY.size)

    @classmethod
    def open(cls, path: Path, base_offset: int) -> "OffsetIndex":
        """For reading. OSError where there is no such file."""
        return cls(EntryFile.open(path, ENTRY.size), base_offset)

    @classmethod
    def open_writable(
        cls, path: Path, base_offset: int, files: Files, size_max: int = INDEX_SIZE_MAX
    ) -> "OffsetIndex":
        return cls(EntryFile.open_writable(path, ENTRY.size, files, size_max), base_offset)

    def __len__(self) -> int:
        return self._entries.count

    @property
    def file(self) -> EntryFile:
        """The file: to sync, trim, and ask whether it is full."""
        return self._entries

    @property
    def is_full(self) -> bool:
        return self._entries.count >= self._entries.capacity

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset where there is none."""
        return self.entry(len(self) - 1)[0] if len(self) else self.base_offset

    def entry(self, slot: int) -> tuple[int, int]:
        """Offset and position. ValueError: there is no such entry."""
        relative, position = ENTRY.unpack(self._entries.entry(slot))
        return self.base_offset + relative, position

    def lookup(self, offset: int) -> tuple[int, int]:
        """Offset and position of the last entry not above `offset`; (base offset, 0) if none."""
        # An entry read as one integer sorts as its offset does.
        key = (offset - self.base_offset) << POSITION_BITS | POSITION_MASK
        slot = self._search.floor(key, self._entries.count)
        if slot < 0:
            return self.base_offset, 0
        relative, position = ENTRY.unpack_from(self._entries.view, slot * ENTRY.size)
        return self.base_offset + relative, position

    def upper_bound(self, position: int, size: int) -> int | None:
        """The offset of the first entry whose position is not below `position + size`, or None.

        Reading that many bytes from there gives records below that offset."""
        end = position + size
        slot = bisect_right(range(len(self)), end - 1, key=lambda slot: self.entry(slot)[1])
        return self.entry(slot)[0] if slot < self._entries.count else None

    def append(self, offset: int, position: int) -> None:
        """ValueError: full, not above the last offset, or not to be told by 31 bits."""
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_MAX:
            raise ValueError(f"offset {offset} does not fit an index of base {self.base_offset}")
        if len(self) and offset <= self.last_offset:
            raise ValueError(f"offset {offset} is not above the last entry's {self.last_offset}")
        self._entries.append(ENTRY.pack(relative, position))
        self._search.appended(relative << POSITION_BITS | position)

    def truncate_to(self, offset: int) -> None:
        """Removes every entry at or above `offset`."""
        count = bisect_right(range(len(self)), offset - 1, key=lambda slot: self.entry(slot)[0])
        self._entries.truncate(count)
        self._search.forget()

    def check(self) -> None:
        """Kafka's sanity check. CorruptIndexError says what cannot be."""
        path = self._entries.path
        if path.stat().st_size % ENTRY.size:
            raise CorruptIndexError(f"its size is not a multiple of {ENTRY.size}", str(path))
        if len(self) and self.last_offset < self.base_offset:
            raise CorruptIndexError("its last offset is below the segment's", str(path))

    def close(self) -> None:
        self._entries.close()
