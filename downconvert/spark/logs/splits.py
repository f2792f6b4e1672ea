"""Cuts a segment into stretches that tasks read, at batch boundaries found through its index.

Planning does not read whole files. An entry of the offset index is a hint, used only if two
consecutive batches begin at its position (boundaries.py).

A segment without an index is one stretch. Its batches can only be found from header to header, from
the beginning, and each task would repeat that for all bytes before its own stretch. Searching for a
batch is not safe either: a match, even with a valid checksum, may be inside a record's value.

Not here: which segments and offsets are read (planner.py), reading (rows.py, batches.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from downconvert.spark.options.options import PARTITION_BYTES_MIN
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.names import OFFSET_MAX
from records.units import MiB

from .boundaries import TRIES, Boundaries, boundaries_of
from .segment_files import SegmentFile

# The cost of opening a segment, as the bytes that could be read in that time, like Spark's own
# spark.sql.files.openCostInBytes. Because of it, a task gets several small segments, not hundreds.
OPEN_COST: Final = 4 * MiB

# A driver plans this many tasks in a minute, and holds them in 1 GB. More data gets larger tasks.
TASKS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of a segment: the batches that begin from `start` up to `end`.

    The wanted records have offsets from `first_offset` up to `end_offset`, and belong to no aborted
    transaction. `copies`: segments of other copies of the log, for offsets that this one lacks.
    `epochs`: only records of these leader epochs are read from the copies."""

    topic: str
    partition: int
    segment: SegmentFile
    start: int
    end: int
    first_offset: int
    end_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()
    is_cut: bool = False  # `start` is where another stretch ends
    is_followed: bool = False  # `end` is where another stretch starts
    is_verified: bool = False  # entries are known to begin at `start` and `end`
    copies: tuple[SegmentFile, ...] = ()
    epochs: tuple[EpochEntry, ...] = ()

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def read_until(self) -> int:
        """The offset up to which records of this segment are wanted."""
        return min(self.end_offset, self.segment.valid_until)


def whole_file(
    file: SegmentFile, start: int, end: int = OFFSET_MAX, *, is_verified: bool = False
) -> Split:
    """A split of a whole segment with the offsets from `start` up to `end`. The topic does not
    matter."""
    return Split("", 0, file, 0, file.size, start, end, is_verified=is_verified)


def split(whole: Split, size_max: int) -> Iterator[Split]:
    """Cuts a stretch into stretches of about `size_max` bytes."""
    file = whole.segment
    is_bounded = whole.first_offset > file.base_offset or whole.end_offset < file.next_offset
    is_narrower = bool(file.blobs) and (is_bounded or file.is_clipped) and not file.is_gzipped
    if whole.size <= size_max and not is_narrower:
        yield whole
        return
    boundaries = boundaries_of(file)
    if is_narrower:
        start, end = around(boundaries, file, whole.first_offset, whole.end_offset)
        whole = replace(whole, start=start, end=end)
    start, is_followed = whole.start, True
    while is_followed:  # at least once: other copies may have the offsets of an empty segment
        end = _cut(boundaries, start + size_max, whole)
        is_cut, is_followed = start > whole.start, end < whole.end
        yield replace(whole, start=start, end=end, is_cut=is_cut, is_followed=is_followed)
        start = end


def around(boundaries: Boundaries, file: SegmentFile, start: int, end: int) -> tuple[int, int]:
    """The boundaries closest around the offsets from `start` up to `end`."""
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
        position += max(1, whole.size // 64)  # skip index entries that lead to no batch
    return whole.end


def task_size(sizes: Sequence[int], size_max: int, tasks_min: int | None = None) -> int:
    """The number of bytes that each task should read. `sizes`: of the stretches. The result is
    `size_max`, or less to get at least `tasks_min` tasks (if these are not too small), or more to
    get at most TASKS_MAX tasks."""
    total = sum(sizes) + OPEN_COST * len(sizes)
    if tasks_min is not None:
        size_max = min(size_max, max(PARTITION_BYTES_MIN, sum(sizes) // tasks_min))
    # Two neighbouring groups together exceed a task's bytes, else they would be one group.
    return max(size_max, -(-2 * total // TASKS_MAX))


def pack(
    splits: Sequence[Split], size_max: int, *, whole_logs: bool = False
) -> list[tuple[Split, ...]]:
    """Groups neighbouring splits to about `size_max` bytes. Each group is read by one task.
    `whole_logs`: one task reads all splits of a partition, in their order."""
    wholes: list[tuple[Split, ...]] = [(one,) for one in splits]
    if whole_logs:
        of_logs = groupby(splits, attrgetter("topic", "partition"))
        wholes = [tuple(of_log) for _, of_log in of_logs]
    groups: list[tuple[Split, ...]] = []
    size = 0
    for whole in wholes:
        cost = sum(one.size + OPEN_COST for one in whole)
        if not groups or size + cost > size_max:
            groups.append(())
            size = 0
        groups[-1] += whole
        size += cost
    return groups
