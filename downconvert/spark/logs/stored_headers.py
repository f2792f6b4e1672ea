"""Headers of batches in a segment that need not be mounted, from some offset on.

Of a segment that is elsewhere its index is asked for, and then what is read; without an index all
that is before it.

Not here: reading ahead (range_records.py), whole stretches (opening.py)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from records import BatchHeader, CorruptRecordsError, FileRecords
from records.file_records import SharedFile

from .blobs import inflated
from .boundaries import StoredBoundaries
from .range_records import Blocks, Direct, RangeRecords
from .segment_files import SegmentFile


@contextmanager
def headers_near(file: SegmentFile, offset: int) -> Iterator[Iterator[BatchHeader]]:
    """The headers from a batch on that is not after the one with an offset, close to it.

    They end in CorruptRecordsError where there is damage. FileNotFoundError: the segment is gone.
    SegmentChangedError, StoreError, CorruptFileError."""
    if not file.blobs:
        segment = file.open()
        try:
            yield segment.slice_from(offset, file.size).batches()
        finally:
            segment.release()
    elif file.is_gzipped:
        descriptor = SharedFile(inflated(file.blob_of_log))
        with FileRecords(descriptor, 0, descriptor.seek(0, os.SEEK_END)) as records:
            yield records.batches()
    else:
        blocks = Blocks(file.blob_of_log, file.size)
        try:
            look = RangeRecords(Direct(blocks), 0, file.size)
            hints = StoredBoundaries(file, look)
            start = hints.before_position(hints.before_offset(offset))
            ranges = look if start else RangeRecords(blocks, 0, file.size)
            yield ranges.slice(start, file.size - start).batches()
        finally:
            blocks.close()


def header_of(file: SegmentFile, offset: int) -> BatchHeader | None:
    """The header of the batch with an offset; None: there is none, or damage before it."""
    with headers_near(file, offset) as headers, suppress(CorruptRecordsError):
        for header in headers:
            if header.last_offset >= offset:
                return header if header.base_offset <= offset else None
    return None


def last_header(file: SegmentFile) -> BatchHeader | None:
    """The header of the last whole batch that is not the next segment's; None: there is none."""
    found = None
    with headers_near(file, file.next_offset - 1) as headers, suppress(CorruptRecordsError):
        for header in headers:
            if header.base_offset >= file.next_offset:
                break
            found = header
    return found
