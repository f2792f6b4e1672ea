"""Reads the batch headers of a segment from an offset on, or of all copies of a log. The files are
in mounted directories or in a store.

For a segment in a store the index is read first, unless the log is short. Without an index,
everything before the offset is read.

Not here: reading ahead (range_records.py), whole stretches (opening.py)."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from heapq import merge
from typing import NamedTuple

from downconvert.spark.stores.range_records import LOOK_SIZE, Blocks, Direct, RangeRecords
from downconvert.storage.names import OFFSET_MAX
from downconvert.storage.segments.rising import Rising, below, counted, fitting, is_sound
from records import BatchHeader, CorruptRecordsError, FileRecords, Records
from records.formats import ENTRY_HEAD_SIZE

from .boundaries import Boundaries, header_at
from .opening import opened
from .segment_files import PartitionLog, SegmentFile
from .splits import whole_file


@contextmanager
def records_near(file: SegmentFile, offset: int) -> Iterator[Records]:
    """The bytes from a batch at or shortly before an offset to the end of the segment.

    FileNotFoundError: the segment is gone. SegmentChangedError, StoreError, CorruptFileError."""
    if not file.blobs:
        segment = file.open()
        try:
            yield segment.slice_from(offset, file.size)
        finally:
            segment.release()
    elif file.is_gzipped:
        with closing(opened(whole_file(file, offset))) as found:
            yield found.records
    else:
        with closing(Blocks(file.blob_of_log, file.size)) as blocks:
            look = RangeRecords(Direct(blocks), 0, file.size)
            if file.size <= LOOK_SIZE:  # one request reads all of it, without the index
                yield look
                return
            hints = Boundaries(file, look)
            start = hints.before_position(hints.before_offset(offset))
            ranges = look if start else RangeRecords(blocks, 0, file.size)
            yield ranges.slice(start, file.size - start)


def header_of(file: SegmentFile, offset: int) -> BatchHeader | None:
    """The header of the batch with an offset; None: there is none, or damage precedes it."""
    with _clear_near(file, offset) as (records, after), suppress(CorruptRecordsError):
        for header in fitting(counted(records), after):
            if header.last_offset >= offset:
                return header if header.base_offset <= offset else None
    return None


def files_with(log: PartitionLog, offset: int) -> Iterator[SegmentFile]:
    """The segments of a log, and then of its other copies, that may have an offset."""
    for copy in (log, *log.others):
        for file in copy.segments:
            if file.base_offset <= offset < min(file.next_offset, file.valid_until) and file.size:
                yield file


def headers_of(log: PartitionLog) -> Iterator[BatchHeader]:
    """The headers of a log and of its other copies, by base offset. Some come several times.

    The iterator raises CorruptRecordsError at damage in the log itself. FileNotFoundError: a
    segment is gone. SegmentChangedError, StoreError."""
    others = (_until_damage(file) for other in log.others for file in other.segments)
    own = (header for file in log.segments for header in _all_of(file))
    return merge(own, *others, key=lambda header: header.base_offset)


def _all_of(file: SegmentFile) -> Iterator[BatchHeader]:
    with records_near(file, file.base_offset) as records:
        yield from below(counted(records), min(file.next_offset, file.valid_until))


def _until_damage(file: SegmentFile) -> Iterator[BatchHeader]:
    with suppress(CorruptRecordsError):
        yield from _all_of(file)


class LastBatch(NamedTuple):
    """The last complete batch that headers lead to; None: there is none. `is_damaged`: other bytes
    follow it, behind which there may be further batches."""

    header: BatchHeader | None
    is_damaged: bool


def last_batch(file: SegmentFile, known: BatchHeader | None = None) -> LastBatch:
    """The last complete batch before the next segment's offsets, or before damage. A batch with a
    wrong offset is damage. The header's position is that in the log.

    `known`: the last batch at an earlier call. If a mounted log still has it, only what follows it
    is read."""
    found, is_damaged, end = None, False, 0
    with _records_from(file, known) as (records, after):
        rising = Rising(after)
        try:
            for header in below(counted(records), file.next_offset):
                is_damaged = not rising.add(header)
                found = found if is_damaged else header
                end = header.position + header.size
        except CorruptRecordsError:
            is_damaged = True
        is_cut = file.next_offset == OFFSET_MAX and end < records.size
        if found is not None:
            found = found._replace(position=records.origin + found.position)
    return LastBatch(found, is_damaged or is_cut)


def end_of_batches(file: SegmentFile) -> int:
    """The offset after the last complete batch before the next segment's offsets, or before
    damage. Without a batch: the segment's base offset. FileNotFoundError, StoreError."""
    header = last_batch(file).header if file.size else None
    return file.base_offset if header is None else header.last_offset + 1


def is_last_offset_known(file: SegmentFile, header: BatchHeader) -> bool:
    """Whether the last offset in the header of a batch, at its position in the log, is right: the
    batch has as many records, or a sound checksum. Errors as those of `records_near`."""
    if header.records_count in (None, header.last_offset_delta + 1):
        return True
    with records_near(file, header.base_offset) as records:
        return is_sound(records, header._replace(position=header.position - records.origin))


@contextmanager
def _records_from(file: SegmentFile, known: BatchHeader | None) -> Iterator[tuple[Records, int]]:
    """The bytes from a known batch on, or from a batch shortly before the end of the segment; and
    an offset that all of their batches have reached. The offset of the known batch is right."""
    if known is not None and not file.blobs and known.position < file.size:
        with FileRecords.open(file.path) as log:
            rest = log.slice(min(known.position, log.size), file.size - known.position)
            first = header_at(rest, 0)
            if first is not None and first._replace(position=known.position) == known:
                records = FileRecords(rest.file, rest.origin, rest.size, first=first)
                yield records, known.base_offset
                return
    with _clear_near(file, file.next_offset - 1) as near:
        yield near


@contextmanager
def _clear_near(file: SegmentFile, offset: int) -> Iterator[tuple[Records, int]]:
    """The bytes from a batch at or shortly before an offset on, and an offset that all of their
    batches have reached. If that batch ends after the next one begins, one of the two has a wrong
    offset. The batches before them show which, so all of them are read."""
    with records_near(file, offset) as near:
        first = header_at(near, 0) if near.origin else None
        following = None if first is None else header_at(near, first.size)
        if first is None or following is None or first.last_offset < following.base_offset:
            yield near, file.base_offset if first is None else first.base_offset
            return
    with records_near(file, file.base_offset) as whole:
        yield whole, file.base_offset


def has_begun(file: SegmentFile) -> bool:
    """Whether a segment has a batch, whole or not. A preallocated file begins with zeros."""
    head = bytearray(ENTRY_HEAD_SIZE)
    if file.size:
        with records_near(file, file.base_offset) as records:
            records.read_into(memoryview(head)[: records.size], 0)
    return any(head)
