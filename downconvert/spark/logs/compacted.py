"""Finds out which offsets a cleaner has removed from a segment.

A segment that is not the last of its log extends to the next one's base offset. If its records end
earlier, a cleaner removed the rest, or the file is incomplete. The gap counts as missing if the
segment's indexes point beyond its end. Otherwise it counts as compacted if a cleaner's checkpoint
reaches that far, if the topic is known to be compacted, or if offsets inside the segment are
missing too: only a cleaner removes these. All other gaps count as missing.

Not here: what is missing (completeness.py)."""

from contextlib import suppress
from dataclasses import replace
from itertools import chain, pairwise, takewhile
from typing import Any, Final

import numpy as np

from downconvert.storage.errors import StorageError
from downconvert.storage.names import OFFSET_MAX, Kind
from downconvert.storage.segments.rising import counted, is_sound
from records import Codec, CorruptRecordsError, Records
from records.formats import V2

from .boundaries import OFFSET_ENTRY, TIME_ENTRY, index_bytes, table_of
from .segment_files import PartitionLog, SegmentFile

# A broker always compacts these topics.
COMPACTED: Final = frozenset({"__consumer_offsets", "__transaction_state"})


def with_cleaned(log: PartitionLog, until: int) -> PartitionLog:
    """A log whose copies were all cleaned up to an offset."""
    segments = tuple(replace(file, cleaned=until) for file in log.segments)
    others = tuple(with_cleaned(other, until) for other in log.others)
    return replace(log, segments=segments, others=others)


def cleaned_until(file: SegmentFile, end: int, records: Records | None = None) -> int:
    """Finds what compaction has removed after a segment's last record. Returns the offset up to
    which everything was removed; `end` if nothing was.

    `end`: the offset after the segment's records. `records`: the segment's, read only as far as
    needed; None: they show no gaps."""
    if file.is_disputed or is_indexed_beyond(file, end):
        return end
    # Nothing in this copy says what a later leader had from `valid_until` on.
    limit = min(file.next_offset, OFFSET_MAX if file.cleaned == OFFSET_MAX else file.valid_until)
    if file.cleaned > file.base_offset:  # the cleaner has removed nothing after `cleaned`
        return max(end, min(file.cleaned, limit))
    has_gap = records is not None and _has_gap(records, file.base_offset, file.offset_max)
    return max(end, limit) if has_gap else end


def _has_gap(records: Records, base_offset: int, limit: int) -> bool:
    """Whether offsets are missing inside a batch or between two batches. The numbers of records and
    of offsets in a damaged header show nothing.

    Compressed messages of v0 and v1 do not say which offsets they hold. A batch with a wrong offset
    (one that does not fit between its neighbours) makes no gap. All offsets are from `base_offset`
    on and below `limit`."""
    reached, before = base_offset, None
    headers = takewhile(lambda one: one.base_offset < limit, counted(records))
    with suppress(CorruptRecordsError):
        for header, following in pairwise(chain(headers, [None])):
            assert header is not None
            if header.magic == V2 and header.records_count is not None:
                count = header.last_offset - header.base_offset + 1
                if header.records_count < count and is_sound(records, header):
                    return True
            highest = limit if following is None else following.base_offset
            fits = reached <= header.base_offset and header.last_offset < highest
            is_exact = header.magic == V2 or header.codec is Codec.NONE
            is_after_gap = fits and is_exact and reached < header.base_offset
            if is_after_gap and before is not None and is_sound(records, before):
                return True
            reached = header.last_offset + 1
            before = header if fits else None
    return False


def is_indexed_beyond(file: SegmentFile, end: int) -> bool:
    """Whether a segment's indexes have entries after its last record."""
    offsets = _entries(file, Kind.OFFSET_INDEX, OFFSET_ENTRY)
    if len(offsets):
        last = offsets[-1]
        if file.base_offset + int(last["offset"]) >= end:
            return True
        if not file.is_gzipped and int(last["position"]) >= file.size:
            return True
    times = _entries(file, Kind.TIME_INDEX, TIME_ENTRY)
    return len(times) > 0 and file.base_offset + int(times[-1]["offset"]) >= end


def _entries(file: SegmentFile, kind: Kind, entry: "np.dtype[np.void]") -> Any:
    """The entries of an index up to the first that is not in order; empty if there is no index."""
    data = b""
    with suppress(OSError, StorageError):
        data = index_bytes(file, kind)
    table = table_of(data, entry)
    keys = table[entry.names[0]].astype(np.int64)  # type: ignore[index]
    falling = np.flatnonzero(np.diff(keys) <= 0)
    table = table[: falling[0] + 1] if len(falling) else table
    return table[:0] if len(table) == 1 and not table.tobytes().strip(b"\0") else table
