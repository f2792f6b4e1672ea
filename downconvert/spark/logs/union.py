"""Joins several copies of a partition to one log: one copy may have offsets that another lacks.

The base is the copy that Kafka would make leader. The log begins where the earliest copy begins,
unless a DeleteRecords request removed earlier records: then the brokers' log start offset is not a
segment's base offset. The log ends where the longest copy of the same epochs ends. Offsets that the
leader's copy lacks in between are read from the other copies. If damage ends the leader's copy, it
may have been longer than all others, so the end of the log is not known. If it is not known which
copy is the leader's, offsets that only a longer copy has are missing.

Not here: which copy is the leader's (replicas.py), reading from the others (completeness.py)."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from downconvert.spark.stores.blobs import Blob
from downconvert.storage.checkpoints.metadata import topic_id_text
from downconvert.storage.names import LEADER_EPOCHS, OFFSET_MAX, PARTITION_METADATA, TopicPartition
from records.batch import NONE

from .replicas import Copy, best_of, is_disputed, with_known_epochs
from .segment_files import PartitionLog, SegmentFile, Superseded


def union_of(name: TopicPartition, found: Sequence[tuple[PartitionLog, Copy]]) -> PartitionLog:
    """The log that the copies form together. Warns if they differ.

    MixedClustersError: they are not copies of one topic."""
    copies = with_known_epochs(name, [copy for _, copy in found])
    found = [(log, copy) for (log, _), copy in zip(found, copies, strict=True)]
    leader = best_of(name, copies)
    log = next(log for log, copy in found if copy is leader)
    ranked = sorted(found, key=lambda one: (one[1].epoch, one[1].end_offset), reverse=True)
    others = [
        (_with_epoch_max(up_to(other, leader.end_of_epoch(copy.epoch)), copy.epoch), copy)
        for other, copy in ranked
        if copy is not leader
    ]
    unneeded = [other for other, _ in others if not other.segments]
    others = [(other, copy) for other, copy in others if other.segments]
    ends = (min(copy.end_offset, leader.end_of_epoch(copy.epoch)) for _, copy in others)
    end = max(ends, default=0)
    if log.segments and end > leader.end_offset and not leader.is_damaged:
        log = replace(log, segments=(*log.segments[:-1], with_end(log.segments[-1], end)))
    disputed = [copy.end_offset for copy in copies if is_disputed(leader, copy)]
    if log.segments and disputed and not leader.is_damaged:
        last = replace(log.segments[-1], next_offset=max(end, *disputed), is_disputed=True)
        log = replace(log, segments=(*log.segments[:-1], last))
    log = _from_the_beginning(log, [other for other, _ in others])
    ids = (copy.topic_id for _, copy in found if copy.topic_id is not None)
    return replace(
        log,
        topic_id=log.topic_id or next(map(topic_id_text, ids), None),
        others=tuple(other for other, _ in others),
        unneeded=tuple(unneeded),
        epochs=leader.epochs,
        superseded=tuple(_superseded(leader, copies)),
    )


def _superseded(leader: Copy, copies: Sequence[Copy]) -> Iterator[Superseded]:
    for copy in copies:
        start = leader.end_of_epoch(copy.epoch)
        is_known = copy is not leader and not is_disputed(leader, copy)
        if is_known and start < copy.end_offset:
            yield Superseded(start, copy.end_offset, copy.epoch, copy.directory)


def _with_epoch_max(log: PartitionLog, epoch: int) -> PartitionLog:
    """A copy with this latest epoch; -1: not known."""
    if epoch == NONE:
        return log
    return replace(log, segments=tuple(replace(file, epoch_max=epoch) for file in log.segments))


def up_to(log: PartitionLog, end: int) -> PartitionLog:
    """The part of a copy below an offset."""
    segments = [file for file in log.segments if file.base_offset < end]
    if segments:
        segments[-1] = _clipped(segments[-1], end)
    return replace(log, segments=tuple(segments))


def with_end(file: SegmentFile, end: int) -> SegmentFile:
    """A segment, read up to an offset at most."""
    return replace(file, next_offset=min(end, file.next_offset))


def _clipped(file: SegmentFile, end: int) -> SegmentFile:
    """The part of a segment below an offset. If it ends there anyway, a batch with a higher offset
    has a wrong one."""
    return replace(with_end(file, end), is_clipped=file.is_clipped or end < file.next_offset)


def _from_the_beginning(log: PartitionLog, others: Sequence[PartitionLog]) -> PartitionLog:
    """Prepends the segments that only other copies still have."""
    deleted = max(map(deleted_up_to, [log, *others]))
    base = log.segments[0].base_offset if log.segments else OFFSET_MAX
    earliest = min(others, key=lambda other: other.segments[0].base_offset, default=log)
    first = earliest.segments[0].base_offset if earliest.segments else base
    if first >= base or deleted >= base:
        return replace(log, start_offset=max(deleted, min(first, base)) if log.segments else first)
    before = [file for file in earliest.segments if file.base_offset < base]
    valid = min(before[-1].next_offset, base)
    before[-1] = replace(_clipped(before[-1], base), next_offset=base, valid_until=valid)
    return replace(
        log,
        start_offset=max(deleted, first),
        segments=(*before, *log.segments),
        broker=log.broker or str(Path(log.directory).parent),
        sides=sides_of(log),
    )


def deleted_up_to(log: PartitionLog) -> int:
    """The log start offset, if a DeleteRecords request has moved it into a segment or to the end of
    the log; else 0."""
    base = log.segments[0].base_offset if log.segments else 0
    return log.start_offset if log.start_offset > base else 0


def sides_of(log: PartitionLog) -> tuple[tuple[str, Blob], ...]:
    """The small files of a partition, mounted or in a store."""
    if not log.is_mounted:
        return log.sides
    directory, found = Path(log.directory), []
    for name in (LEADER_EPOCHS, PARTITION_METADATA):
        with suppress(OSError):
            status = (directory / name).stat()
            path = str(directory / name)
            found.append((name, Blob(path, status.st_size, 0, status.st_mtime_ns)))
    return tuple(found)
