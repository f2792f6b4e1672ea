"""Finds the first record of a log that is not older than a timestamp, in all of its copies.

Time indexes lead to it if the leader's copy is complete up to there. Otherwise the copies are
searched batch by batch. Absent offsets right before that record may have held an earlier one.

Not here: what the options make of it (planner.py)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from downconvert.spark.logs.completeness import State, Stretch, is_damaged_after
from downconvert.spark.logs.opening import opened
from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile
from downconvert.spark.logs.splits import Split
from downconvert.spark.logs.staging import staged
from downconvert.spark.logs.whole_log import whole_log
from downconvert.storage import Log
from downconvert.storage.names import OFFSET_MAX
from records import CorruptRecordsError, read_batch

from .gaps import is_incomplete
from .time_entries import leaves_out_older


class Moment(NamedTuple):
    """Where a timestamp is in a log. `offset`: the first record that is not older; None: all are
    older. `start`: the same, or the first of the absent offsets right before that record."""

    offset: int | None
    start: int | None


def first_since(
    log: PartitionLog, timestamps: Sequence[int], cleaned: Callable[[SegmentFile], int]
) -> list[Moment]:
    """For each timestamp, in milliseconds, the first record that is not older. `cleaned`: how far a
    cleaner has cleaned a copy of the log.

    FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
    found: list[Moment | None] = [None] * len(timestamps)
    with suppress(CorruptRecordsError), opened_log(log) as whole:
        for number, timestamp in enumerate(timestamps):
            with suppress(CorruptRecordsError):
                found[number] = _indexed(log, whole, timestamp, cleaned)
    return [
        _searched(log, timestamp, cleaned) if moment is None else moment
        for timestamp, moment in zip(timestamps, found, strict=True)
    ]


def _indexed(
    log: PartitionLog, whole: Log, timestamp: int, cleaned: Callable[[SegmentFile], int]
) -> Moment | None:
    """By the time indexes of the leader's copy. None: they or the copy may leave out records, or
    have deleted ones."""
    if whole.start_offset != log.start_offset:  # other copies have deleted more, or less
        return None
    offset = whole.offset_for(timestamp)
    end = OFFSET_MAX if offset is None else offset
    before = [one for one in log.segments if one.base_offset <= end]
    if (
        not (offset is None and _hides_more(log, whole.end_offset))
        and all(leaves_out_older(one, timestamp) for one in before)
        and not any(is_incomplete(one, cleaned) for one in before if one.base_offset < end)
    ):
        return Moment(offset, offset)
    return None


def _hides_more(log: PartitionLog, end: int) -> bool:
    """Whether damage at the log's end may hide records."""
    return any(is_damaged_after(last, end) for last in log.segments[-1:])


@contextmanager
def opened_log(log: PartitionLog) -> Iterator[Log]:
    """A log for looking up timestamps. If it is not mounted, all of it is copied to this
    machine."""
    bases = {file.base_offset for file in log.segments}
    with staged(log, bases) as directory, Log.open(directory) as found:
        yield found


def _searched(log: PartitionLog, timestamp: int, cleaned: Callable[[SegmentFile], int]) -> Moment:
    absent: int | None = None  # where the absent offsets begin that no record follows so far
    for piece in whole_log(log, log.start_offset, cleaned):
        if piece.state is State.MISSING:
            absent = piece.start if absent is None else absent
        elif piece.state is State.WHOLE:
            offset, is_after_others = _first_in(piece, timestamp)
            absent = None if is_after_others else absent
            if offset is not None:
                return Moment(offset, offset if absent is None else absent)
    return Moment(None, absent)


def _first_in(piece: Stretch, timestamp: int) -> tuple[int | None, bool]:
    """The first record of a stretch that is not older, and whether older ones precede it."""
    file, size = piece.segment, piece.last - piece.first
    assert file is not None
    split = Split("", 0, file, piece.first, piece.last, piece.start, piece.end, is_verified=True)
    found, is_after_others = opened(split), False
    try:
        records = found.records.slice(piece.first, size)
        for header in records.batches():
            if header.is_control or header.last_offset < piece.start:
                continue
            if header.max_timestamp < timestamp:
                is_after_others = True
                continue
            for record in read_batch(records, header):
                if not piece.start <= record.offset < piece.end:
                    continue
                if record.timestamp >= timestamp:
                    return record.offset, is_after_others
                is_after_others = True
        return None, is_after_others
    finally:
        found.close()
