"""Cuts a segment into stretches that tasks read: at batch boundaries, found through its index.

Planning does not read whole files. An entry of the offset index is a hint, and is followed only
where two batches follow each other at its position (boundaries.py).

A segment without an index is one stretch. Its batches could only be found from header to header
from its beginning, which every task would do again for all that is before its own stretch; and a
batch that is found by looking for one, checksum and all, may be in a record's value.

Not here: which segments and offsets are read (planner.py), reading (rows.py, batches.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from downconvert.storage.checkpoint import EpochEntry
from downconvert.storage.transaction_index import AbortedTransaction
from records.units import MiB

from .boundaries import TRIES, Boundaries, boundaries_of
from .segment_files import SegmentFile

# What it costs to open a segment, in bytes that could be read meanwhile: as Spark's own
# spark.sql.files.openCostInBytes, so that a task takes several small segments.
OPEN_COST: Final = 4 * MiB

# What a driver plans in a minute and holds in a gigabyte. More data is read by larger tasks.
TASKS_MAX: Final = 100_000

# Of a task; smaller ones cost more to start than to run.
SIZE_MIN: Final = MiB


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of a segment: the batches that begin from `start` up to `end`.

    Wanted are the records with offsets from `first_offset` up to `end_offset` that are not of an
    aborted transaction. `copies`: segments of other copies of the log, for what this one lacks,
    and `epochs`: of their records those that are of these leader epochs; `cleaned`: how far a
    cleaner has been in it."""

    topic: str
    partition: int
    segment: SegmentFile
    start: int
    end: int
    first_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()
    is_cut: bool = False  # `start` is where another stretch ends
    copies: tuple[SegmentFile, ...] = ()
    epochs: tuple[EpochEntry, ...] = ()
    cleaned: int = 0

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def read_until(self) -> int:
        """The offset up to which records of this segment are wanted."""
        return min(self.end_offset, self.segment.valid_until)


def split(whole: Split, size_max: int) -> Iterator[Split]:
    """Stretches of a stretch, of about `size_max` bytes."""
    file = whole.segment
    is_bounded = whole.first_offset > file.base_offset or whole.end_offset < file.next_offset
    is_narrower = bool(file.blobs) and (is_bounded or file.is_clipped) and not file.is_gzipped
    if whole.size <= size_max and not is_narrower:
        yield whole
        return
    boundaries = boundaries_of(file)
    try:
        if is_narrower:
            start, end = around(boundaries, file, whole.first_offset, whole.end_offset)
            whole = replace(whole, start=start, end=end)
        start = whole.start
        while start < whole.end:
            end = _cut(boundaries, start + size_max, whole)
            yield replace(whole, start=start, end=end, is_cut=start > whole.start)
            start = end
    finally:
        boundaries.close()


def around(boundaries: Boundaries, file: SegmentFile, start: int, end: int) -> tuple[int, int]:
    """Boundaries closely around the offsets from `start` up to `end`."""
    first, last = 0, file.size
    if start > file.base_offset:
        first = boundaries.before_offset(start)
    if end < file.next_offset or file.is_clipped:
        after = boundaries.after_offset(end)
        last = file.size if after is None else max(first, after)
    return first, last


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
