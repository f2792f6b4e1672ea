"""Offsets between two segments that neither of them has: they may still be copied.

Who copies a log (`aws s3 sync`, say) brings a new, small segment before the rest of the one that it
follows, or before one between them. In a log as a broker has it a segment mostly begins where the
one before ends. Not always: a cleaner takes the last records of a segment away, too. So a gap says
nothing by itself. One between segments of which neither is new is how the log is; at another one a
stream waits, and after a while goes on (follow.py).

When a segment came here is the time of its object, or of this machine the time at which its file
was changed, which no program sets: not that of its content, which copies keep.

Not here: how long a stream waits (follow.py), gaps that an audit counts (audit_segment.py)."""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from .segment_files import SegmentFile
from .stored_headers import last_header


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
) -> Gap | None:
    """The first gap in the offsets from `start` up to `end`, of those beside which a segment has
    come or changed since a time, in nanoseconds since the epoch; None: there is none.

    `end_of`: the offset after the last whole batch of a segment, which is asked of those alone.
    FileNotFoundError: one is gone. StoreError."""
    for before, file in pairwise(segments):
        if file.base_offset <= start:
            continue
        if before.base_offset >= end:
            break
        if max(_changed(before), _changed(file)) <= since:
            continue
        gap = Gap(max(start, end_of(before)), file.base_offset)
        if gap.start < min(end, gap.end):
            return gap
    return None


def end_of(file: SegmentFile) -> int:
    """The offset after the last whole batch of a segment. FileNotFoundError, StoreError."""
    header = last_header(file) if file.size else None
    return file.base_offset if header is None else max(file.base_offset, header.last_offset + 1)


def _changed(file: SegmentFile) -> int:
    """When a segment came here or was changed, in nanoseconds since the epoch."""
    return file.blob_of_log.modified if file.blobs else os.stat(file.path).st_ctime_ns  # noqa: PTH116
