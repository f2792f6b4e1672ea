"""Finds the first record of a log that is not older than a timestamp, in all of its copies.

Time indexes lead to the record if the leader's copy is complete up to there. Otherwise the copies
are searched batch by batch. Offsets that are absent right before the record may have held an
earlier such record.

Not here: the use of the result (planner.py)."""

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import NamedTuple

from downconvert.spark.logs.boundaries import Boundaries
from downconvert.spark.logs.completeness import State, Stretch
from downconvert.spark.logs.opening import opened
from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile
from downconvert.spark.logs.splits import Split, whole_file
from downconvert.spark.logs.whole_log import whole_log
from downconvert.storage.segments.rising import in_order
from records import BatchHeader, CorruptRecordsError, Records, read_batch
from records.checksum import verify_checksum
from records.files.source import TRUNCATED

from .gaps import is_incomplete
from .time_entries import search_from


class Moment(NamedTuple):
    """The place of a timestamp in a log. `offset`: of the first record that is not older; None: all
    are older. `start`: the same, or the first of the absent offsets right before that record."""

    offset: int | None
    start: int | None


def first_since(log: PartitionLog, timestamp: int) -> Moment:
    """The first record that is not older than a timestamp, in milliseconds.

    FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
    return _indexed(log, timestamp) or _searched(log, timestamp)


def _indexed(log: PartitionLog, timestamp: int) -> Moment | None:
    """The result by the time indexes of the leader's copy. None: the indexes or the copy may lack
    records."""
    with suppress(CorruptRecordsError):
        for file in log.segments:
            if file.next_offset <= log.start_offset:
                continue
            offset = search_from(file, timestamp) if file.size else file.next_offset
            if offset is None:
                return None
            if offset < file.next_offset:
                found = _first_from(file, offset, log.start_offset, timestamp)
                if found is not None:
                    return Moment(found, found)
            if is_incomplete(file):
                return None
        return Moment(None, None)
    return None


def _searched(log: PartitionLog, timestamp: int) -> Moment:
    absent: int | None = None  # the first offset of the current gap, if no record followed it yet
    for piece in whole_log(log, log.start_offset):
        if piece.state is State.MISSING:
            absent = piece.start if absent is None else absent
        elif piece.state is State.WHOLE:
            offset, is_after_others = _first_in(piece, timestamp)
            absent = None if is_after_others else absent
            if offset is not None:
                return Moment(offset, offset if absent is None else absent)
    return Moment(None, absent)


def _first_in(piece: Stretch, timestamp: int) -> tuple[int | None, bool]:
    """As `_first_of`, in a stretch."""
    file = piece.segment
    assert file is not None
    split = Split("", 0, file, piece.first, piece.last, piece.start, piece.end, is_verified=True)
    with closing(opened(split)) as found:
        records = found.records.slice(piece.first, piece.last - piece.first)
        return _first_of(records, records.batches(), piece.start, piece.end, timestamp)


def _first_from(file: SegmentFile, offset: int, start: int, timestamp: int) -> int | None:
    """The first record at or above `start` that is not older than the timestamp. Reads a segment
    from the batch of `offset` on. CorruptRecordsError: damage may hide an earlier record, or all
    of them."""
    whole = whole_file(file, offset, file.next_offset, is_verified=True)
    with closing(opened(whole)) as found:
        position = found.boundaries().before_offset(max(offset, start))
        records = found.records.slice(position, found.records.size - position)
        end = min(file.next_offset, file.valid_until)
        headers = _to_the_end(records, position, file, found.boundaries(), start)
        return _first_of(records, headers, start, end, timestamp)[0]


def _to_the_end(
    records: Records, position: int, file: SegmentFile, boundaries: Boundaries, start: int
) -> Iterator[BatchHeader]:
    """The headers of a segment's batches from a position on. CorruptRecordsError: a batch has a
    wrong offset, does not end where others follow it, or may have the offset `start` although its
    header does not say so."""
    end, before = position, None
    for header in in_order(records.batches(), file.base_offset, file.offset_max):
        if before is not None and before.last_offset < start < header.base_offset:
            verify_checksum(records, before)
        yield header
        end, before = position + header.position + header.size, header
    if boundaries.from_position(end + 1) is not None:
        raise CorruptRecordsError(TRUNCATED, end)


def _first_of(
    records: Records, headers: Iterable[BatchHeader], start: int, end: int, timestamp: int
) -> tuple[int | None, bool]:
    """The first record from offset `start` up to `end` that is not older, and whether older ones
    precede it. `headers`: of the batches."""
    is_after_others = False
    for header in headers:
        if header.is_control or header.last_offset < start:
            continue
        if header.max_timestamp < timestamp:
            is_after_others = True
            continue
        for record in read_batch(records, header):
            if not start <= record.offset < end:
                continue
            if record.timestamp >= timestamp:
                return record.offset, is_after_others
            is_after_others = True
    return None, is_after_others
