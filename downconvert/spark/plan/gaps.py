"""Finds gaps between two segments that may still be filled, because the log is still being copied.

Tools that copy a log (`aws s3 sync`, for example) may copy a new, small segment before the rest of
the preceding one, or before a segment in between. In a broker's log, a segment usually begins where
the preceding one ends. There are exceptions: a cleaner may remove the last records of a segment,
and another copy of the log may have them (completeness.py). If neither segment next to a gap is
new, the task that reads there reports the gap. Otherwise a stream waits for a while (follow.py).

The age of a segment is that of its object in a store. On this machine it is taken from the ctime of
the file, which no program can set. The modification time is not used, because copies keep it.

Not here: how long a stream waits (follow.py), gaps that an audit counts (audit_segment.py)."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from downconvert.spark.logs.compacted import cleaned_until
from downconvert.spark.logs.completeness import (
    State,
    behind_damage,
    is_last,
    stretches_of_copies,
    whole_split,
)
from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile
from downconvert.spark.logs.stored_headers import end_of_batches, records_near


class Gap(NamedTuple):
    """The offsets from `start` up to `end`."""

    start: int
    end: int


def first_gap(
    segments: Sequence[SegmentFile],
    start: int,
    end: int,
    since: int,
    end_of: Callable[[SegmentFile], int],
    missing_from: Callable[[SegmentFile, Gap], int] = lambda _, gap: gap.start,
) -> Gap | None:
    """The first gap in the offsets from `start` up to `end` next to a segment that has arrived or
    changed since `since`, in nanoseconds since the epoch; None: there is none.

    `end_of` returns the offset after the last complete batch of a segment. It is called for new
    segments only. `missing_from` returns the first offset of a gap after a segment that nothing
    else explains. FileNotFoundError: a segment is gone. StoreError."""
    for before, file in pairwise(segments):
        if file.base_offset <= start:
            continue
        if before.base_offset >= end:
            break
        if max(_changed(before), _changed(file)) <= since:
            continue
        gap = Gap(max(start, end_of(before)), file.base_offset)
        if gap.start < min(end, gap.end):
            gap = gap._replace(start=missing_from(before, gap))
        if gap.start < min(end, gap.end):
            return gap
    return None


def end_of(file: SegmentFile) -> int:
    """The offset after the last complete batch of a segment, within its part of the log. Offsets
    missing before a batch do not matter: a cleaner has removed them. FileNotFoundError,
    StoreError."""
    whole = replace(file, next_offset=file.offset_max)  # a clipped one goes on
    after = end_of_batches(whole)
    if file.size and after < file.next_offset:
        # Batches may follow damage, or a batch whose size is wrong. The task that reads there
        # reports it.
        after = max((after, *(one.end for one in behind_damage(file, after))))
    return min(after, file.next_offset, file.valid_until)


def missing_from(log: PartitionLog, file: SegmentFile, gap: Gap) -> int:
    """The first offset of a gap after a segment that is missing: no copy of the log has it, and no
    cleaner has removed it. The end of the gap if no offset is missing. FileNotFoundError,
    StoreError."""
    whole = whole_split(log, file)
    missing = [one for one in stretches_of_copies(whole, *gap) if one.state is State.MISSING]
    if not missing:
        return gap.end
    with records_near(file, file.base_offset) as records:
        known = cleaned_until(file, end_of(file), records)
    return next((max(one.start, known) for one in missing if one.end > known), gap.end)


def is_incomplete(file: SegmentFile) -> bool:
    """Whether a segment ends before the next one begins, and no cleaner has removed the offsets
    between them. FileNotFoundError, StoreError."""
    if is_last(file):
        return False
    end = end_of(file)
    if end >= file.next_offset:
        return False
    with records_near(file, file.base_offset) as records:
        return cleaned_until(file, end, records) < file.next_offset


def _changed(file: SegmentFile) -> int:
    """When a segment arrived here or was changed, in nanoseconds since the epoch."""
    return file.blob_of_log.modified if file.blobs else os.stat(file.path).st_ctime_ns  # noqa: PTH116
