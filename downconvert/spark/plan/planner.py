"""Makes splits from options: which stretches of which segments are read.

Only names, sizes and index entries are read, except for bounds by time or by transaction.

Not here: finding the files (trees.py), cutting them (splits.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final

from downconvert.spark.logs.boundaries import boundaries_of
from downconvert.spark.logs.completeness import is_last, whole_split
from downconvert.spark.logs.isolation import Committed, committed_of
from downconvert.spark.logs.segment_files import PartitionLog, SegmentFile, are_mounted
from downconvert.spark.logs.splits import Split, around, pack, split, task_size
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.logs.watermarks import HighWatermarks
from downconvert.spark.options.java_patterns import compiled
from downconvert.spark.options.options import Options
from downconvert.spark.stores.attempts import attempted
from downconvert.spark.stores.parallel import in_parallel
from downconvert.storage.errors import StorageError
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.names import OFFSET_MAX, TopicPartition

from .bounds import INT64_MIN, Bounds
from .gaps import is_incomplete
from .gather import MICROSECONDS
from .time_entries import search_from
from .times import first_since

TOPICS_TOLD: Final = 20  # existing topics in the error for an unknown one


def plan(options: Options, bounds: Bounds) -> list[tuple[Split, ...]]:
    """The splits to read, a tuple for each task. If a partition is deleted or cleaned meanwhile, it
    is planned again."""
    return attempted(lambda _: plan_logs(partitions(options), options, bounds))


def plan_logs(
    logs: Sequence[PartitionLog], options: Options, bounds: Bounds
) -> list[tuple[Split, ...]]:
    """As `plan`, for partitions that were found before."""
    watermarks = HighWatermarks() if options.stop_at_high_watermark else None
    wanted = [log for log in logs if bounds.takes(*log.topic_partition)]
    found = in_parallel(
        lambda log: list(stretches_of(log, options, bounds, watermarks)),
        wanted,
        is_mounted=are_mounted(wanted),
    )
    wholes = list(chain.from_iterable(found))
    if options.state_topic is not None:
        return pack(wholes, options.max_partition_bytes, whole_logs=True)
    return tasks_of(wholes, options)


def tasks_of(wholes: Sequence[Split], options: Options) -> list[tuple[Split, ...]]:
    """Cuts and groups stretches of segments as the options say: a tuple for each task."""
    size = task_size(
        [whole.size for whole in wholes], options.max_partition_bytes, options.min_partitions
    )
    is_mounted = not any(whole.segment.blobs for whole in wholes)
    cut = in_parallel(lambda whole: list(split(whole, size)), wholes, is_mounted=is_mounted)
    return pack(list(chain.from_iterable(cut)), size)


def partitions(options: Options) -> list[PartitionLog]:
    """The partitions that the options select.

    ValueError: there are none below the paths, or the options name one that does not exist."""
    names: set[TopicPartition] = set()

    def takes(name: TopicPartition) -> bool:
        names.add(name)
        return options.takes(*name)

    found = find_partitions(
        options.stored_paths,
        options.cluster_id,
        options.data_keys,
        takes=takes,
        is_compacted=options.is_compacted,
    )
    if not names:
        raise ValueError(
            f"no partition below {', '.join(options.paths)}: "
            "directories such as orders-0 with files such as 00000000000000000000.log"
        )
    _check_named(sorted(names), options)
    return found


def _check_named(there: Sequence[TopicPartition], options: Options) -> None:
    topics = sorted({name.topic for name in there})
    missing = [name for name in options.topics if not any(fnmatchcase(t, name) for t in topics)]
    if options.assigned is not None:
        missing += sorted(f"{t}-{number}" for t, number in options.assigned - set(there))
    if options.partitions is not None and not any(options.takes(*name) for name in there):
        first, last = min(options.partitions), max(options.partitions)
        missing.append(f"partitions {first}" + (f" to {last}" if last > first else ""))
    pattern = options.topics_pattern
    if pattern is not None and not any(map(compiled(pattern), topics)):
        missing.append(pattern)
    for option, named in options.bounded.items():
        missing += sorted(f"{t}-{number} ({option})" for t, number in named - set(there))
    if missing:
        names = [*topics[:TOPICS_TOLD], *(["..."] if len(topics) > TOPICS_TOLD else [])]
        raise ValueError(
            f"{', '.join(missing)}: no such topic or partition below {', '.join(options.paths)}; "
            f"the topics there are {', '.join(names)}"
        )


def stretches_of(
    log: PartitionLog,
    options: Options,
    bounds: Bounds,
    watermarks: HighWatermarks | None = None,
) -> Iterator[Split]:
    """The stretches of one partition to read. If watermarks are given, these end at its high
    watermark."""
    limit = OFFSET_MAX if watermarks is None else watermarks.of_log(log)
    transactions = committed_of(log, limit) if options.committed else None
    if options.level == "offset":
        transactions = committed_of(log).throughout()
    start, end = offsets_of(log, options)
    start, end = max(start, bounds.offset_min), min(end, bounds.offset_max + 1, limit)
    if transactions is not None:
        end = min(end, transactions.end)
    if start >= end:
        return
    for found in stretches(log, start, end, transactions):
        if not _is_older(found.segment, log, bounds):
            yield found


def _is_older(file: SegmentFile, log: PartitionLog, bounds: Bounds) -> bool:
    """Whether all records of a segment are too old, according to its time index.

    The time index is reliable only in a rolled segment. False if offsets are missing before the
    next segment: the segment's task must read or report them, because they may be younger."""
    if bounds.time_min == INT64_MIN or file is log.segments[-1] or file.blobs:
        return False
    segment = file.open()
    try:
        youngest = segment.max_timestamp()
    except (OSError, StorageError):
        return False
    finally:
        segment.release()
    if youngest is None or MICROSECONDS * youngest >= bounds.time_min:
        return False
    oldest = -(-bounds.time_min // MICROSECONDS)
    return search_from(file, oldest) == file.next_offset and not is_incomplete(file)


def offsets_of(log: PartitionLog, options: Options) -> tuple[int, int]:
    """The start and end offset of the records that the options select in a partition. Errors as
    those of `start_of`."""
    name = log.topic_partition
    end = options.ending.bound(*name, log.start_offset, OFFSET_MAX)
    ending_time = options.ending_time(*name)
    if ending_time is not None:
        after = first_since(log, ending_time).offset
        end = OFFSET_MAX if after is None else after
    return start_of(log, OFFSET_MAX, options), end


def start_of(log: PartitionLog, end: int, options: Options) -> int:
    """The offset at which reading begins in a log that ends at `end`.

    ValueError: no record is at or after the starting timestamp, and the options make this an
    error. FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
    name = log.topic_partition
    timestamp = options.starting_time(*name)
    if timestamp is None:
        start = options.starting.bound(*name, log.start_offset, end)
        return max(log.start_offset, min(start, end))
    found = first_since(log, timestamp).start
    if found is None and options.must_find_timestamp:
        raise ValueError(
            f"{name} has no record from timestamp {timestamp} on; with the option "
            "startingOffsetsByTimestampStrategy=latest none of it is read"
        )
    return end if found is None else max(log.start_offset, min(found, end))


def stretches(
    log: PartitionLog, start: int, end: int, transactions: Committed | None
) -> Iterator[Split]:
    """A stretch of each segment with offsets from `start` up to `end`."""
    for file in log.segments:
        if file.next_offset <= start:
            continue
        if file.base_offset >= end:
            break
        if not file.size and is_last(file):
            continue
        aborted: tuple[AbortedTransaction, ...] = ()
        if transactions is not None:
            aborted = transactions.between(max(start, file.base_offset), file.next_offset)
        first, last = _positions(file, start, end)
        yield replace(
            whole_split(log, file),
            start=first,
            end=last,
            first_offset=start,
            end_offset=min(end, file.next_offset),
            aborted=aborted,
        )


def _positions(file: SegmentFile, start: int, end: int) -> tuple[int, int]:
    """The batch boundaries closest around the offsets. For a segment in a store, cutting finds them
    later, because it requests the index anyway."""
    first, last = 0, file.size
    if (start > file.base_offset or end < file.next_offset) and not file.blobs:
        first, last = around(boundaries_of(file), file, start, end)
    return first, last
