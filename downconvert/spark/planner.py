"""From options to splits: which stretches of which segments are read.

Only names, sizes and index entries are looked at, but for what is asked by time or by transaction.

Not here: finding the files (trees.py), cutting them (splits.py)."""

from collections.abc import Iterator
from pathlib import Path

from downconvert.storage import Log
from downconvert.storage.errors import StorageError
from downconvert.storage.names import OFFSET_MAX, TopicPartition
from downconvert.storage.transaction_index import AbortedTransaction

from .bounds import INT64_MIN, Bounds
from .gather import MICROSECONDS
from .isolation import Committed, committed
from .options import Options
from .splits import Boundaries, Split, pack, split
from .trees import PartitionLog, SegmentFile, find_partitions
from .watermarks import HighWatermarks


def plan(options: Options, bounds: Bounds) -> list[tuple[Split, ...]]:
    """What there is to be read, a tuple for each task."""
    watermarks = HighWatermarks() if options.stop_at_high_watermark else None
    splits = [
        found
        for log in partitions(options)
        if bounds.takes(*log.topic_partition)
        for found in splits_of(log, options, bounds, watermarks)
    ]
    return pack(splits, options.max_partition_bytes)


def partitions(options: Options) -> list[PartitionLog]:
    """The partitions that the options ask for. ValueError: there is none at all below the paths."""
    found = find_partitions(options.paths, options.cluster_id)
    if not found:
        raise ValueError(
            f"no partition below {', '.join(options.paths)}: "
            "directories such as orders-0 with files such as 00000000000000000000.log"
        )
    return [log for log in found if options.takes(*log.topic_partition)]


def splits_of(
    log: PartitionLog,
    options: Options,
    bounds: Bounds,
    watermarks: HighWatermarks | None = None,
) -> Iterator[Split]:
    """The splits of one partition, up to its high watermark where these are given."""
    transactions = committed(log.directory) if options.committed else None
    start, end = offsets_of(log, options)
    start, end = max(start, bounds.offset_min), min(end, bounds.offset_max + 1)
    if transactions is not None:
        end = min(end, transactions.end)
    if watermarks is not None:
        end = min(end, watermarks.of(log.topic_partition, log.directory))
    if start >= end:
        return
    for found in stretches(log, start, end, options, transactions):
        if not _is_older(found.segment, log, bounds):
            yield found


def _is_older(file: SegmentFile, log: PartitionLog, bounds: Bounds) -> bool:
    """Whether a segment's time index says that all of it is older than what is wanted.

    Only that of a rolled segment says how young its records are."""
    if bounds.time_min == INT64_MIN or file is log.segments[-1]:
        return False
    segment = file.open()
    try:
        youngest = segment.max_timestamp()
    except (OSError, StorageError):
        return False
    finally:
        segment.release()
    return youngest is not None and MICROSECONDS * youngest < bounds.time_min


def offsets_of(log: PartitionLog, options: Options) -> tuple[int, int]:
    """From which offset up to which one the options ask for records of a partition."""
    name = log.topic_partition
    start = max(options.starting.bound(*name, log.start_offset, OFFSET_MAX), log.start_offset)
    end = options.ending.bound(*name, log.start_offset, OFFSET_MAX)
    if options.starting_timestamp is None and options.ending_timestamp is None:
        return start, end
    with Log.open(Path(log.directory)) as opened:
        if options.starting_timestamp is not None:
            first = opened.offset_for(options.starting_timestamp)
            start = OFFSET_MAX if first is None else first
        if options.ending_timestamp is not None:
            behind = opened.offset_for(options.ending_timestamp)
            end = OFFSET_MAX if behind is None else behind
    return start, end


def starting_offset(log: Log, name: TopicPartition, end: int, options: Options) -> int:
    """Where a stream begins in a log that ends at `end`."""
    if options.starting_timestamp is not None:
        first = log.offset_for(options.starting_timestamp)
        return end if first is None else min(first, end)
    start = options.starting.bound(*name, log.start_offset, end)
    return max(log.start_offset, min(start, end))


def stretches(
    log: PartitionLog, start: int, end: int, options: Options, transactions: Committed | None
) -> Iterator[Split]:
    """The splits that hold the offsets from `start` up to `end`."""
    for file in log.segments:
        if file.next_offset <= start:
            continue
        if file.base_offset >= end:
            break
        if not file.size:
            continue
        aborted: tuple[AbortedTransaction, ...] = ()
        if transactions is not None:
            aborted = transactions.between(max(start, file.base_offset), file.next_offset)
        first, last = _positions(file, start, end)
        whole = Split(*log.topic_partition, file, first, last, True, start, end, aborted)
        yield from split(whole, options.max_partition_bytes)


def _positions(file: SegmentFile, start: int, end: int) -> tuple[int, int]:
    """Boundaries around the batches that hold the offsets, near to them."""
    first, last = 0, file.size
    if start > file.base_offset or end < file.next_offset:
        boundaries = Boundaries(file)
        try:
            if start > file.base_offset:
                first = boundaries.before_offset(start)
            if end < file.next_offset:
                behind = boundaries.behind_offset(end)
                last = file.size if behind is None else max(first, behind)
        finally:
            boundaries.close()
    return first, last
