"""Compares a segment's time index with the headers of its batches. An index has no checksum: a
damaged one would leave out records that are not older than a timestamp.

Not here: the lookup (times.py, planner.py)."""

from contextlib import suppress
from typing import Any, Final

import numpy as np

from downconvert.spark.logs.boundaries import TIME_ENTRY, index_bytes, table_of
from downconvert.spark.logs.completeness import is_last
from downconvert.spark.logs.segment_files import SegmentFile
from downconvert.spark.logs.stored_headers import records_near
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import Kind
from downconvert.storage.segments.rising import counted
from records import CorruptRecordsError
from records.formats import V2

# Headers that are read for one segment. Usually the last entry leads to the last batch.
HEADERS_MAX: Final = 10_000


def search_from(file: SegmentFile, timestamp: int) -> int | None:
    """An offset from the time index, confirmed by headers: all batches before the offset's batch
    are older than the timestamp, so a search begins there. The segment's next offset means that all
    of a rolled segment is older. None: the headers do not confirm the index.

    FileNotFoundError: the segment is gone. SegmentChangedError, StoreError."""
    entries = _entries(file)
    if entries is None:
        return None
    slot = int(np.searchsorted(entries["timestamp"], timestamp, side="right")) - 1
    if slot < 0:
        return file.base_offset
    noted = int(entries["timestamp"][slot])
    offset = file.base_offset + int(entries["offset"][slot])
    is_all_older = slot == len(entries) - 1 and noted < timestamp and not is_last(file)
    if not _is_right(file, noted, offset, is_all_older=is_all_older):
        return None
    return file.next_offset if is_all_older else offset


def _is_right(file: SegmentFile, noted: int, offset: int, *, is_all_older: bool) -> bool:
    """Whether the highest timestamp of an offset's batch is `noted`. `is_all_older`: no batch after
    it may have a higher one."""
    is_found = False
    with suppress(CorruptRecordsError), records_near(file, offset) as records:
        for number, header in enumerate(counted(records)):
            if header.base_offset >= file.next_offset:
                break
            if number > HEADERS_MAX:
                return False
            if is_found:
                if header.max_timestamp > noted:
                    return False
            elif header.last_offset >= offset:
                if header.max_timestamp != noted:
                    return False
                if header.magic == V2 and header.base_offset > offset:
                    return False
                if not is_all_older:
                    return True
                is_found = True
        return is_found
    return False


def _entries(file: SegmentFile) -> Any:
    """The entries of a time index; empty if there is no index; None if it is damaged."""
    try:
        data = index_bytes(file, Kind.TIME_INDEX)
    except CorruptFileError:
        return None
    if len(data) % TIME_ENTRY.itemsize:
        return None
    table = table_of(data, TIME_ENTRY)
    times, offsets = table["timestamp"].astype(np.int64), table["offset"].astype(np.int64)
    used = np.flatnonzero((times != 0) | (offsets != 0))
    count = int(used[-1]) + 1 if len(used) else 0  # the rest was preallocated
    times, offsets = times[:count], offsets[:count]
    is_sorted = (np.diff(times) > 0).all() and (np.diff(offsets) >= 0).all()
    if not is_sorted or (count and offsets[0] < 0):
        return None
    return table[:count]
