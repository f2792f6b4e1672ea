"""Cuts a segment into stretches that tasks read: at batch boundaries, found through its index.

Nobody goes through a file for that. An entry of the offset index is a hint, and is followed only
where two batches follow each other at its position (downconvert/storage/segment.py). Where there is
no index, stretches are cut anywhere, and each task looks for the first batch in its own by going
from header to header.

Not here: which segments and offsets are read (planner.py), reading (rows.py, batches.py)."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from downconvert.storage.errors import StorageError
from downconvert.storage.names import Kind
from downconvert.storage.offset_index import OffsetIndex
from downconvert.storage.transaction_index import AbortedTransaction
from records import CorruptRecordsError

from .trees import SegmentFile

# What it costs to open a segment, in bytes that could be read meanwhile: as Spark's own
# spark.sql.files.openCostInBytes, so that a task takes several small segments.
OPEN_COST: Final = 4 * 1024 * 1024

# Entries of a damaged index that are tried for one cut.
TRIES: Final = 16


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of a segment: the batches that begin from `start` up to `end`.

    `is_aligned`: both are known to be batch boundaries. Of the records those are wanted whose
    offsets are from `first_offset` up to `end_offset`, and not of an aborted transaction."""

    topic: str
    partition: int
    segment: SegmentFile
    start: int
    end: int
    is_aligned: bool
    first_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return self.end - self.start


class Boundaries:
    """The places in a segment of which its index says that a batch begins there."""

    __slots__ = ("_index", "_segment", "_size")

    def __init__(self, file: SegmentFile) -> None:
        self._segment = file.open()
        self._size = file.size
        self._index: OffsetIndex | None = None
        try:
            path = self._segment.path(Kind.OFFSET_INDEX)
            self._index = OffsetIndex.open(path, file.base_offset)
        except (OSError, StorageError):
            self._index = None

    @property
    def exist(self) -> bool:
        return self._index is not None and len(self._index) > 0

    def from_position(self, position: int, tries: int | None = None) -> int | None:
        """The first boundary at or behind a position; None: none is known there."""
        index = self._index
        if index is None or not index.file.is_whole():
            return None
        first = bisect_left(range(len(index)), position, key=lambda slot: index.entry(slot)[1])
        last = len(index) if tries is None else min(len(index), first + tries)
        for slot in range(first, last):
            found = self._verified(index.entry(slot)[0])
            if found >= position:
                return found if found < self._size else None
        return None

    def before_offset(self, offset: int) -> int:
        """A boundary at or in front of the batch that holds an offset, near to it."""
        return self._verified(offset)

    def behind_offset(self, offset: int) -> int | None:
        """A boundary behind every batch with offsets below `offset`; None: none is known.

        What an entry's offset is has changed over the years (storage/offset_index.py). Of
        all kinds the second entry from `offset` on is behind it."""
        index = self._index
        if index is None or not index.file.is_whole():
            return None
        slot = bisect_left(range(len(index)), offset, key=lambda slot: index.entry(slot)[0]) + 1
        if slot >= len(index):
            return None
        return self.from_position(index.entry(slot)[1], TRIES)

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
        self._segment.release()

    def _verified(self, offset: int) -> int:
        """Where the index leads from an offset; 0 where its entries lead nowhere."""
        try:
            return self._segment.slice_from(offset, self._size).origin
        except (StorageError, CorruptRecordsError):
            return 0


def split(whole: Split, size_max: int) -> Iterator[Split]:
    """Stretches of a stretch, of about `size_max` bytes."""
    if whole.size <= size_max:
        yield whole
        return
    boundaries = Boundaries(whole.segment)
    try:
        start = whole.start
        while start < whole.end:
            end = _cut(boundaries, start + size_max, whole)
            yield replace(whole, start=start, end=end, is_aligned=boundaries.exist)
            start = end
    finally:
        boundaries.close()


def _cut(boundaries: Boundaries, position: int, whole: Split) -> int:
    if not boundaries.exist:
        return min(position, whole.end)
    while position < whole.end:
        cut = boundaries.from_position(position, TRIES)
        if cut is not None:
            return min(cut, whole.end)
        position += max(1, whole.size // 64)  # a stretch of the index that leads nowhere
    return whole.end


def pack(splits: Sequence[Split], size_max: int) -> list[tuple[Split, ...]]:
    """Neighbouring splits in groups of about `size_max` bytes, each to be read by one task."""
    groups: list[tuple[Split, ...]] = []
    group: list[Split] = []
    size = 0
    for item in splits:
        cost = item.size + OPEN_COST
        if group and size + cost > size_max:
            groups.append(tuple(group))
            group, size = [], 0
        group.append(item)
        size += cost
    if group:
        groups.append(tuple(group))
    return groups


def aligned(split_: Split) -> Split:
    """The same stretch between batch boundaries, found from header to header where need be.

    What cannot be read on from belongs to the stretch that it begins in, with all behind it."""
    if split_.is_aligned:
        return split_
    size = split_.segment.size
    segment = split_.segment.open()
    start = end = None
    at = 0  # where the next entry begins
    try:
        for header in segment.slice(0, size).batches():
            at = header.position
            if start is None and at >= split_.start:
                start = at
            if at >= split_.end:
                end = at
                break
            at += header.size
    except CorruptRecordsError:
        pass
    finally:
        segment.release()
    if start is None:
        start = at if at >= split_.start else size
    if end is None:
        end = at if at >= split_.end else size
    return replace(split_, start=start, end=end, is_aligned=True)
