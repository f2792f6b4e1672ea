"""Whether what an export has written is still what the logs have.

An offset alone does not say which record it was: a later leader may have truncated it, and another
record may be there now. Beside the end of what it has written an export notes the leader epoch of
the record before it (KIP-101, KIP-320).

Not here: the notes (export_manifest.py), what a run adds (export_plan.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from downconvert.storage.checkpoint import EpochEntry
from downconvert.storage.names import TopicPartition
from records import BatchHeader
from records.batch import NONE

from .export_manifest import Exported
from .jobs import JobError
from .places import Place, where_changed
from .replicas import id_text_of, leader_epochs
from .segment_files import PartitionLog
from .staging import staged
from .stored_headers import header_of, headers_near
from .stored_trees import OF_PARTITION

UNKNOWN: Final = NONE


class Facts(NamedTuple):
    """What a broker has noted of a partition: the id of its topic, as text, and leader epochs."""

    topic_id: str | None
    epochs: Sequence[EpochEntry]


class Truncated(NamedTuple):
    """Offsets that were exported, up to `end`, and are other records now from `start` on."""

    name: TopicPartition
    start: int
    end: int
    epoch: int  # in which they were exported


def facts_of(log: PartitionLog) -> Facts:
    """OSError, StoreError: it cannot be read."""
    sides = tuple((name, blob) for name, blob in log.sides if name in OF_PARTITION)
    with staged(replace(log, segments=(), sides=sides), ()) as directory:
        topic_id = log.topic_id or id_text_of(str(directory))
        return Facts(topic_id, tuple(log.epochs) or tuple(leader_epochs(directory)))


def epoch_before(log: PartitionLog, facts: Facts, offset: int) -> int:
    """The leader epoch of the record before an offset: by its batch, or by what the broker has
    noted where compaction has removed it; -1: not known. StoreError."""
    for file in log.segments:
        if file.base_offset < offset <= file.next_offset and file.size:
            header = header_of(file, offset - 1)
            if header is not None:
                return header.leader_epoch
    return max((one.epoch for one in facts.epochs if one.start_offset < offset), default=UNKNOWN)


def truncated(log: PartitionLog, facts: Facts, there: Exported) -> Truncated | None:
    """What was exported of a log and was truncated since; None: nothing, as far as is known.
    JobError: the log is older than what was exported."""
    name = log.topic_partition
    found = None
    for end, epoch in there.epochs.get(name, {}).items():
        now = epoch_before(log, facts, end)
        if UNKNOWN < now < epoch:
            raise JobError(
                f"{name} was exported up to {end} in leader epoch {epoch}, and {log.directory} is "
                f"of epoch {now} there: it is a copy that is not up to date"
            )
        start = _changed_from(log, facts, Place(end, epoch))
        if start is not None and (found is None or start < found.start):
            found = Truncated(name, start, there.end_of(name) or end, epoch)
    return found


def _changed_from(log: PartitionLog, facts: Facts, place: Place) -> int | None:
    def headers() -> Iterator[BatchHeader]:
        for file in log.segments:
            with headers_near(file, file.base_offset) as found:
                yield from found

    offset = place.offset
    return where_changed(
        place, lambda: epoch_before(log, facts, offset), lambda: facts.epochs, headers
    )
