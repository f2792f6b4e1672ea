"""Finds the end of each copy of a partition, reading as few files as possible.

In most backups the copies are in sync: their last segments have the same base offset, the same size
and the same last bytes. Then any copy will do, and one request per copy is enough. Otherwise each
copy's leader epochs, topic id and last batch are read: one request for each, and one for the index
if the log is not short.

Not here: choosing the leader's copy (replicas.py), joining the copies to one log (union.py)."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.spark.stores.parallel import in_parallel
from downconvert.storage.names import (
    LEADER_EPOCHS,
    OFFSET_MAX,
    PARTITION_METADATA,
    TopicPartition,
)
from downconvert.storage.segments.rising import below
from records import BatchHeader, CorruptRecordsError
from records.batch import NONE

from .checkpoints import leader_epochs
from .completeness import behind_damage, is_damaged_after, is_last
from .replicas import Copy, topic_id_of
from .segment_files import PartitionLog, SegmentFile, are_mounted
from .staging import staged
from .stored_headers import last_batch, records_near
from .union import union_of

# Larger than a batch of a producer with Kafka's default batch.size.
END_SIZE: Final = 16 * 1024  # bytes

# A cleaner may rename files while a directory is listed.
ATTEMPTS: Final = 8


def chosen(
    found: Mapping[TopicPartition, Sequence[PartitionLog]],
    cache: ObjectCache,
    again: Callable[[PartitionLog], PartitionLog],
) -> dict[TopicPartition, PartitionLog]:
    """The log that the copies of each partition form together. `again`: lists a log in a mounted
    directory again.

    MixedClustersError: they are not copies of one topic. FileNotFoundError, StoreError."""
    several = {name: logs for name, logs in found.items() if len(logs) > 1}
    alike = [logs for logs in several.values() if _is_alike(logs)]
    files = [log.segments[-1] for logs in alike for log in logs]
    ask = partial(in_parallel, is_mounted=all(map(are_mounted, several.values())))
    ends = dict(zip(files, ask(partial(_end_of, cache), files), strict=True))
    equal = [logs for logs in alike if _is_equal([ends[log.segments[-1]] for log in logs])]
    of_topics = {_topic(log): log for logs in equal for log in logs}
    ids = dict(zip(of_topics, ask(partial(_topic_id, cache), of_topics.values()), strict=True))
    in_sync = [logs for logs in equal if len({ids[_topic(log)] for log in logs} - {None}) < 2]
    copies = {
        log.directory: (log, Copy(log.directory, log.start_offset, OFFSET_MAX, topic_id=known))
        for logs in in_sync
        for log in logs
        for known in [ids[_topic(log)]]
    }
    others = [log for logs in several.values() for log in logs if log.directory not in copies]
    for log, looked in zip(others, ask(partial(_current_copy, cache, again), others), strict=True):
        copies[log.directory] = looked
    return {
        name: logs[0]
        if name not in several
        else union_of(name, [copies[log.directory] for log in logs])
        for name, logs in found.items()
    }


def _is_alike(logs: Sequence[PartitionLog]) -> bool:
    """Whether copies may be in sync, by the names and sizes of their last segments."""
    if not all(log.segments and log.segments[-1].size for log in logs):
        return False
    lasts = [log.segments[-1] for log in logs]
    return len({(file.base_offset, file.size, file.is_gzipped) for file in lasts}) == 1


def _is_equal(ends: Sequence[bytes]) -> bool:
    """Whether the ends of logs are equal. Zeros prove nothing: files are preallocated."""
    return len(set(ends)) == 1 and any(ends[0])


def _end_of(cache: ObjectCache, file: SegmentFile) -> bytes:
    """The last bytes of a log; empty if the log is empty, or gone."""
    if file.is_gzipped:
        return b""
    try:
        if file.blobs:
            return cache.of(("last bytes", file.blob_of_log), partial(_last_bytes, file))
        with open(file.path, "rb") as log:  # noqa: PTH123 - a path is a string, as planned
            return os.pread(log.fileno(), END_SIZE, max(0, file.size - END_SIZE))
    except FileNotFoundError:
        return b""


def _last_bytes(file: SegmentFile) -> bytes:
    with closing(file.blob_of_log.open()) as reader:
        return reader.read(max(0, file.size - END_SIZE), END_SIZE)


def _topic(log: PartitionLog) -> tuple[str, str]:
    """The broker's directory and the topic: all partitions of a topic there have one id."""
    return os.path.dirname(log.directory), log.topic_partition.topic  # noqa: PTH120


def _topic_id(cache: ObjectCache, log: PartitionLog) -> UUID | None:
    if log.is_mounted:
        return topic_id_of(log.directory)
    return cache.of(("topic id", log.sides), partial(_staged_id, log))


def _staged_id(log: PartitionLog) -> UUID | None:
    with staged(_with_sides(log, {PARTITION_METADATA}), ()) as directory:
        return topic_id_of(str(directory))


def _with_sides(log: PartitionLog, names: set[str]) -> PartitionLog:
    sides = tuple(side for side in log.sides if side[0] in names)
    return replace(log, segments=(), sides=sides)


def _current_copy(
    cache: ObjectCache, again: Callable[[PartitionLog], PartitionLog], log: PartitionLog
) -> tuple[PartitionLog, Copy]:
    """A copy as it is now, and its end."""
    if not log.is_mounted:
        return log, cache.of(log, partial(look, log))
    for _ in range(ATTEMPTS - 1):
        try:
            return log, look(log)
        except FileNotFoundError:  # deleted or cleaned since it was found
            log = again(log)
    return log, look(log)


def look(log: PartitionLog) -> Copy:
    """The end of a copy, by its last batch and its checkpoints. Batches after a damaged one count,
    too. FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
    with staged(_with_sides(log, {LEADER_EPOCHS, PARTITION_METADATA}), ()) as directory:
        epochs = tuple(leader_epochs(directory))
        topic_id = topic_id_of(str(directory))
    last, damaged = None, None
    for file in reversed([file for file in log.segments if file.size]):
        last, is_damaged = last_batch(file)
        damaged = file if is_damaged and is_last(file) else damaged
        if last is not None or (epochs and not log.is_mounted):
            break
    end = log.segments[-1].base_offset if log.segments else 0
    noted = [entry.epoch for entry in epochs]
    shown: list[int] = []
    if last is not None:
        end = max(end, last.last_offset + 1)
        shown.append(last.leader_epoch)
    is_damaged = damaged is not None and is_damaged_after(damaged, end)
    if damaged is not None and is_damaged:
        for one in behind_damage(damaged, end):
            end = one.end
            shown.append(one.epoch)
        is_damaged = is_damaged_after(damaged, end)
    epoch = max([*noted, *shown], default=NONE)
    is_confirmed = epoch in (NONE, *noted) or shown.count(epoch) > 1
    return Copy(
        log.directory,
        log.start_offset,
        end,
        epoch,
        epochs,
        topic_id,
        is_damaged,
        is_confirmed or (last is not None and _is_also_before(log, last, epoch)),
    )


def _is_also_before(log: PartitionLog, last: BatchHeader, epoch: int) -> bool:
    """Whether the batch before the last one has a leader epoch. Errors as those of `look`."""
    at, before = last.base_offset - 1, None
    for file in reversed(log.segments):
        if file.base_offset <= at and file.size:
            with records_near(file, at) as records, suppress(CorruptRecordsError):
                for one in below(records.batches(), last.base_offset):
                    before = one
            return before is not None and before.leader_epoch == epoch
    return False
