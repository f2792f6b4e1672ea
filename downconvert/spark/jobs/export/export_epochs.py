"""Checks whether exported records are still those of the logs.

An offset alone does not identify a record: a later leader may have truncated it, and another record
may be there now. An export therefore notes the leader epoch of the last record that it has written
(KIP-101, KIP-320).

Not here: the notes (export_manifest.py), what a run adds (export_plan.py)."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.checkpoints import leader_epochs
from downconvert.spark.logs.places import Place, where_changed
from downconvert.spark.logs.replicas import id_text_of
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.staging import staged
from downconvert.spark.logs.stored_headers import (
    files_with,
    header_of,
    headers_of,
    last_batch,
)
from downconvert.spark.logs.stored_trees import OF_PARTITION
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.names import TopicPartition
from records.batch import NONE

from .export_manifest import Exported

UNKNOWN: Final = NONE


class Facts(NamedTuple):
    """A partition's topic id, as text, and leader epochs, from the broker's files."""

    topic_id: str | None
    epochs: Sequence[EpochEntry]


class Truncated(NamedTuple):
    """Exported offsets up to `end`. In the log, offsets from `start` on are now other records."""

    name: TopicPartition
    start: int
    end: int
    epoch: int  # of the exported records


def facts_of(log: PartitionLog) -> Facts:
    """Reads a partition's facts. OSError, StoreError: they cannot be read."""
    sides = tuple((name, blob) for name, blob in log.sides if name in OF_PARTITION)
    with staged(replace(log, segments=(), sides=sides), ()) as directory:
        topic_id = log.topic_id or id_text_of(str(directory))
        return Facts(topic_id, tuple(log.epochs) or tuple(leader_epochs(directory)))


def known_epoch(log: PartitionLog, facts: Facts, offset: int) -> int:
    """The leader epoch of the record before an offset; -1: not known. It is read from the record's
    batch in any copy or, if compaction has removed the record, from the broker's checkpoint.
    StoreError."""
    for file in files_with(log, offset - 1):
        found = header_of(file, offset - 1)
        if found is not None:
            return found.leader_epoch
    return _in_checkpoint(facts, offset)


def epoch_to_note(log: PartitionLog, facts: Facts, offset: int, epoch: int) -> int:
    """The leader epoch to note for the record before an offset. `epoch`: that of its batch in one
    copy. No checksum covers it, so the broker's checkpoint, another copy or the preceding batch
    must confirm it. Otherwise the checkpoint's epoch is noted, or the lowest one of the copies. If
    that is too low, the next run asks for a repair. StoreError."""
    noted = _in_checkpoint(facts, offset)
    if epoch == noted:
        return epoch
    found = [header_of(file, offset - 1) for file in files_with(log, offset - 1)]
    headers = [header for header in found if header is not None]
    epochs = [header.leader_epoch for header in headers]
    before = [known_epoch(log, facts, header.base_offset) for header in headers[:1]]
    if [*epochs, *before].count(epoch) > 1:
        return epoch
    return min(epochs, default=epoch) if noted == UNKNOWN else noted


def _in_checkpoint(facts: Facts, offset: int) -> int:
    return max((one.epoch for one in facts.epochs if one.start_offset < offset), default=UNKNOWN)


def _epoch_before(log: PartitionLog, facts: Facts, offset: int) -> int:
    """As `known_epoch`, but as it would be noted. If that is not known, the epoch of the last batch
    before the offset, because the log may end there."""
    known = known_epoch(log, facts, offset)
    known = epoch_to_note(log, facts, offset, known) if known != UNKNOWN else known
    last = [file for file in log.segments if file.base_offset < offset and file.size][-1:]
    header = last_batch(last[0]).header if known == UNKNOWN and last else None
    return known if header is None or header.last_offset >= offset else header.leader_epoch


def truncated(
    log: PartitionLog, facts: Facts, contents: Exported, *, corrects: bool = False
) -> Truncated | None:
    """The exported records that a leader has truncated since; None: no such records are known.
    JobError: the log is older than the export, unless `corrects` is set. Then its leader epoch
    replaces the later one in `contents`, with a warning.

    A log whose own leaders are later is not older, although its record may be: the election of an
    unclean leader removes all records of an epoch."""
    name = log.topic_partition
    found = None
    for end, epoch in list(contents.epochs.get(name, {}).items()):
        now = _epoch_before(log, facts, end)
        is_earlier = UNKNOWN < now < epoch
        if is_earlier and (end <= log.start_offset or _latest(log, facts) <= epoch):
            what = (
                f"{name} was exported up to {end} in leader epoch {epoch}, and {log.directory} is "
                f"of epoch {now} there"
            )
            if not corrects:
                raise JobError(
                    f"{what}: it is a copy that is not up to date, or the batch that was exported "
                    "had a wrong epoch; export an up-to-date copy, or run it with repair "
                    f"(--repair), which keeps the records and notes epoch {now}"
                )
            warnings.warn(f"{what}: this is noted now", RuntimeWarning, stacklevel=2)
            contents.epochs[name][end] = now
            continue
        if is_earlier:
            start: int | None = _start_of(log, facts, now)
        else:
            start = _changed_from(log, facts, Place(end, epoch))
        if start is not None and (found is None or start < found.start):
            found = Truncated(name, start, contents.end_of(name) or end, epoch)
    return found


def _latest(log: PartitionLog, facts: Facts) -> int:
    """The latest leader epoch in the broker's checkpoint and the last batch; -1: not known."""
    epochs = [one.epoch for one in facts.epochs]
    last = [file for file in log.segments if file.size][-1:]
    header = last_batch(last[0]).header if last else None
    return max(epochs if header is None else [*epochs, header.leader_epoch], default=UNKNOWN)


def _start_of(log: PartitionLog, facts: Facts, epoch: int) -> int:
    """The first offset of a leader epoch in a log. A later epoch that was removed began there or
    after it, unless its own leader was unclean, too."""
    starts = [one.start_offset for one in facts.epochs if one.epoch == epoch]
    if not starts:
        starts = [one.base_offset for one in headers_of(log) if one.leader_epoch == epoch]
    return max(min(starts, default=0), log.start_offset)


def _changed_from(log: PartitionLog, facts: Facts, place: Place) -> int | None:
    offset = place.offset
    return where_changed(
        place,
        lambda: _epoch_before(log, facts, offset),
        lambda: facts.epochs,
        lambda: headers_of(log),
    )
