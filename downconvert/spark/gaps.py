"""Offsets between two segments that neither of them has: they may still be copied.

Who copies a log (`aws s3 sync`, say) brings a new, small segment before the rest of the one that it
follows, or before one between them. In a log as a broker has it a segment mostly begins where the
one before ends. Not always: a cleaner takes the last records of a segment away, too, and another
copy of the log may have them (completeness.py). A gap between segments of which neither is new is
reported by the task that reads there; at another one a stream waits for a while (follow.py).

When a segment came here is the time of its object, or of this machine the time at which its file
was changed, which no program sets: not that of its content, which copies keep.

Not here: how long a stream waits (follow.py), gaps that an audit counts (audit_segment.py)."""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from .completeness import State, cleaned_until, lent, mended
from .segment_files import PartitionLog, SegmentFile
from .splits import Split
from .stored_headers import headers_near, last_header


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
    is_missing: Callable[[SegmentFile, Gap], bool] = lambda _, __: True,
) -> Gap | None:
    """The first gap in the offsets from `start` up to `end`, of those beside which a segment has
    come or changed since a time, in nanoseconds since the epoch; None: there is none.

    `end_of`: the offset after the last whole batch of a segment, which is asked of those alone;
    `is_missing`: whether nothing explains a gap after a segment.
    FileNotFoundError: one is gone. StoreError."""
    for before, file in pairwise(segments):
        if file.base_offset <= start:
            continue
        if before.base_offset >= end:
            break
        if max(_changed(before), _changed(file)) <= since:
            continue
        gap = Gap(max(start, end_of(before)), file.base_offset)
        if gap.start < min(end, gap.end) and is_missing(before, gap):
            return gap
    return None


def end_of(file: SegmentFile) -> int:
    """The offset after the last whole batch of a segment. FileNotFoundError, StoreError."""
    header = last_header(file) if file.size else None
    return file.base_offset if header is None else max(file.base_offset, header.last_offset + 1)


def is_missing(
    log: PartitionLog, cleaned_of: Callable[[SegmentFile], int], file: SegmentFile, gap: Gap
) -> bool:
    """Whether offsets after a segment of a log are in no copy of it, and no cleaner has removed
    them. `cleaned_of`: how far one has been. FileNotFoundError, StoreError."""
    cleaned = cleaned_of(file)
    copies = lent(log, file)
    whole = Split(
        *log.topic_partition,
        file,
        0,
        file.size,
        *gap,
        copies=copies,
        epochs=log.epochs,
        cleaned=cleaned,
    )
    if copies and all(found.state is not State.MISSING for found in mended(whole, *gap)):
        return False
    with headers_near(file, file.base_offset) as headers:
        return cleaned_until(file, end_of(file), cleaned, headers) < gap.end


def _changed(file: SegmentFile) -> int:
    """When a segment came here or was changed, in nanoseconds since the epoch."""
    return file.blob_of_log.modified if file.blobs else os.stat(file.path).st_ctime_ns  # noqa: PTH116
