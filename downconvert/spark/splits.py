"""Cuts a segment into stretches that tasks read: at batch boundaries, found through its index.

Planning does not read whole files. An entry of the offset index is a hint, and is followed only
where two batches follow each other at its position (downconvert/storage/segment.py).

A segment without an index is one stretch. Its batches could only be found from header to header
from its beginning, which every task would do again for all that is before its own stretch; and a
batch that is found by looking for one, checksum and all, may be in a record's value.

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
from records.units import MiB

from .trees import SegmentFile

# What it costs to open a segment, in bytes that could be read meanwhile: as Spark's own
# spark.sql.files.openCostInBytes, so that a task takes several small segments.
OPEN_COST: Final = 4 * MiB

# What a driver plans in a minute and holds in a gigabyte. More data is read by larger tasks.
TASKS_MAX: Final = 100_000

# Of a task; smaller ones cost more to start than to run.
SIZE_MIN: Final = MiB

# Entries of a damaged index that are tried for one cut.
TRIES: Final = 16


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of a segment: the batches that begin from `start` up to `end`.

    Wanted are the records with offsets from `first_offset` up to `end_offset` that are not of an
    aborted transaction."""

    topic: str
    partition: int
    segment: SegmentFile
    start: int
    end: int
    first_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return self.end - self.start


class Boundaries:
    """The positions in a segment at which a batch begins, by its index."""

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
        """The first boundary at or after a position; None: none is known."""
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
        """A boundary at or before the batch that holds an offset, close to it."""
        return self._verified(offset)

    def after_offset(self, offset: int) -> int | None:
        """A boundary after every batch with offsets below `offset`; None: none is known.

        Versions of Kafka differ in which offset of a batch an entry has (storage/offset_index.py).
        In all of them the second entry from `offset` on is after it."""
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
            yield replace(whole, start=start, end=end)
            start = end
    finally:
        boundaries.close()


def _cut(boundaries: Boundaries, position: int, whole: Split) -> int:
    while boundaries.exist and position < whole.end:
        cut = boundaries.from_position(position, TRIES)
        if cut is not None:
            return min(cut, whole.end)
        position += max(1, whole.size // 64)  # a stretch of the index that leads nowhere
    return whole.end


def task_size(sizes: Sequence[int], size_max: int, tasks_min: int | None = None) -> int:
    """How many bytes a task is to read of stretches of such sizes: `size_max`, or less for at least
    `tasks_min` tasks, as far as these are worth it, or more for at most TASKS_MAX tasks."""
    total = sum(sizes) + OPEN_COST * len(sizes)
    if tasks_min is not None:
        size_max = min(size_max, max(SIZE_MIN, sum(sizes) // tasks_min))
    # Two neighbouring groups hold more than a task's bytes together, or they would be one.
    return max(size_max, -(-2 * total // TASKS_MAX))


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
