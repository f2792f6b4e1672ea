"""Reads a partition for clients that get unconverted records, and measures available bytes.

Not here: reading for clients of older formats (reading_converted.py), the order of decisions
(fetch_reader.py)."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from downconvert import LazyRecodedRecords
from downconvert.broker.partition import Partition
from downconvert.conversion.plan import SMALL_SIZE_MAX
from downconvert.serving.fetch_assembly import first_visible, has_visible_record
from records import Codec, FileRecords
from records.files.zero_copy import ZeroCopySend

from .contribution import Contribution, FetchPause, Reading, ReadLimits, Turns, nothing
from .planning import planned
from .reading_converted import Reader

# Batches checked in one turn for a client that reads v2. This takes some milliseconds.
BATCHES_A_TURN: Final = 1_000


def read_as_is(
    partition: Partition,
    offset: int,
    up_to: int,
    limits: ReadLimits,
    *,
    reader: Reader | None = None,
    recode: Mapping[str, str] | None = None,
    is_follower: bool = False,
    is_committed: bool = False,
) -> Contribution | Reading:
    """Reads records as they are on disk, except for codecs that the client does not know. `recode`:
    as in ConversionPolicy; None: the client knows all codecs. `reader`: plans the recompression.
    `is_follower`: whether the client needs every batch. `is_committed`: whether it needs markers,
    to find aborted records. Raises UnsupportedCodecError if the first batch has a refused codec.

    Returns the turns of reading if it must check more than the first header."""
    records = partition.read(offset, limits.max_bytes, up_to)
    first = records.first
    has_records = is_follower or (first is not None and has_visible_record(first, offset))
    if has_records and reader is None:
        return _as_is(records, offset, up_to, limits)
    return _in_turns(
        partition, records, offset, up_to, limits, reader, recode, has_records, is_committed
    )


def _as_is(records: FileRecords, offset: int, up_to: int, limits: ReadLimits) -> Contribution:
    if not limits.fit(records):
        return nothing(offset if records.size else max(offset, up_to))
    return Contribution(ZeroCopySend(records), records.size, up_to, records)


def _in_turns(
    partition: Partition,
    records: FileRecords,
    offset: int,
    up_to: int,
    limits: ReadLimits,
    reader: Reader | None,
    recode: Mapping[str, str] | None,
    has_records: bool,
    wants_markers: bool,
) -> Reading:
    if not has_records:
        records = yield from _from_a_record_on(
            partition, records, offset, up_to, limits, wants_markers=wants_markers
        )
    if recode and reader is not None and limits.fit(records):
        first = records.first
        if first is not None and first.codec == Codec.ZSTD and records.size > SMALL_SIZE_MAX:
            yield FetchPause.TURN  # a large range begins in a turn of its own
        begin = partial(LazyRecodedRecords.in_steps, records, recode)
        lazy = yield from planned(begin, reader.client, reader.slots, reader.wake)
        if lazy.has_recoded or lazy.damage is not None:
            records = records.slice(0, lazy.source_size)
        if lazy.has_recoded:
            return Contribution(lazy.to_send(), records.size, up_to, source=records)
    return _as_is(records, offset, up_to, limits)


def available(partition: Partition, offset: int, up_to: int, max_bytes: int) -> int:
    """Bytes of the log that a fetch would get. A cheap check, which reads only headers near
    `offset`.

    Raises RecordsError and OSError like reading."""
    if offset >= up_to:
        return 0
    return min(partition.read(offset, max_bytes, up_to).size, max_bytes)


def all_available(partition: Partition, offset: int, up_to: int, enough: int) -> int | None:
    """Bytes of the log from `offset` to `up_to`. None: there are at least `enough`, or the next
    segment has more.

    A cheap check, which reads only headers near `offset`. Raises RecordsError and OSError like
    reading."""
    records = partition.read(offset, enough, up_to)
    if records.size >= enough:
        return None
    if records.size and partition.upper_bound(records) < up_to:  # the next segment has more
        return None
    return records.size


def ends_with_its_segment(partition: Partition, offset: int, up_to: int) -> bool:
    """Whether a read from `offset` ends before `up_to`, because it is of one segment."""
    with partition.lock:
        segments = partition.log.segments
        return len(segments) > 1 and offset < segments[-1].base_offset < up_to


def _from_a_record_on(
    partition: Partition,
    records: FileRecords,
    offset: int,
    up_to: int,
    limits: ReadLimits,
    *,
    wants_markers: bool,
) -> Turns[FileRecords]:
    """Reads from the first batch that has something for the client."""
    looked_at = 0
    while True:
        first = first_visible(records, offset, wants_markers=wants_markers)
        looked_at += first.looked_at
        if first.header is not None:
            if not first.header.position:
                return records
            return partition.read(first.header.base_offset, limits.max_bytes, up_to)
        if first.end is None:  # not even one whole batch
            return records
        if first.end >= up_to:
            return records.slice(0, 0)
        if looked_at >= BATCHES_A_TURN:
            looked_at = 0
            yield FetchPause.TURN
        records = partition.read(first.end, limits.max_bytes, up_to)
