"""Places in logs that a stream has come to: the next offset, and the leader epoch of the
record before it; and what a stream waits for.

An offset alone does not say which record it was: a log that was truncated has others there. Offset
and leader epoch together do (KIP-101, KIP-320). As JSON, in a query's checkpoint, a place is
`{"offset": 123, "leaderEpoch": 4, "topicId": "..."}`, or the offset alone where neither epoch nor
id is known: in v0 and v1, in checkpoints of earlier versions, and where the record before was
deleted or compacted. A topic that was deleted and made anew has another id. Where a
stream waits for what may still be copied (gaps.py) there are "waitingSince" and "waitingUpTo", too:
a query that runs for a moment each hour would wait for ever otherwise.

Not here: how far there is something to read (follow.py)."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from downconvert.storage import Log
from downconvert.storage.checkpoint import EpochEntry
from downconvert.storage.errors import OffsetOutOfRangeError
from downconvert.storage.names import TopicPartition
from records import BatchHeader, CorruptRecordsError
from records.batch import NONE

from .replicas import leader_epochs


class Wait(NamedTuple):
    """Since when a stream has waited for what is missing of a log, in milliseconds since the epoch,
    and how far that log went then."""

    since: int
    up_to: int


class Place(NamedTuple):
    """The next offset to read, the leader epoch of the one before it (-1: not known), and the id of
    the topic, as text (None: not known)."""

    offset: int
    epoch: int = NONE
    wait: Wait | None = None
    topic_id: str | None = None

    def is_of(self, topic_id: str | None) -> bool:
        """Whether a topic with this id may be the one that was read."""
        return None in (self.topic_id, topic_id) or self.topic_id == topic_id


Places: TypeAlias = dict[TopicPartition, Place]
Json: TypeAlias = dict[str, dict[str, Any]]


def to_json(places: Mapping[TopicPartition, Place]) -> Json:
    """In the form of Spark's checkpoints; as its Kafka source writes it, where no epochs are
    known."""
    found: Json = {}
    for (topic, partition), place in sorted(places.items()):
        found.setdefault(topic, {})[str(partition)] = _json(place)
    return found


def _json(place: Place) -> int | dict[str, Any]:
    offset, epoch, wait, topic_id = place
    known: dict[str, Any] = {"offset": offset, "leaderEpoch": epoch}
    if topic_id is not None:
        known["topicId"] = topic_id
    if wait is not None:
        known |= {"waitingSince": wait.since, "waitingUpTo": wait.up_to}
    return offset if known == {"offset": offset, "leaderEpoch": NONE} else known


def from_json(offsets: Mapping[str, Mapping[str, Any]]) -> Places:
    """Reads what `to_json`, or an earlier version of it, wrote. ValueError: it is something
    else."""
    return {
        TopicPartition(topic, int(partition)): _place(given)
        for topic, partitions in offsets.items()
        for partition, given in partitions.items()
    }


def _place(given: object) -> Place:
    match given:
        case int(offset):
            return Place(offset)
        case {"offset": int(offset), "leaderEpoch": int(epoch), **others}:
            wait = None
            match others:
                case {"waitingSince": int(since), "waitingUpTo": int(up_to)}:
                    wait = Wait(since, up_to)
            topic_id = others.get("topicId")
            return Place(offset, epoch, wait, None if topic_id is None else str(topic_id))
    raise ValueError(f"not an offset in a checkpoint: {given!r}")


def epoch_of(log: Log, offset: int) -> int:
    """The leader epoch of the record before an offset, from its batch; -1: not known."""
    try:
        header = next(log.read(offset - 1, 0).batches(), None) if offset > 0 else None
    except (OffsetOutOfRangeError, CorruptRecordsError):
        return NONE
    if header is None or not header.base_offset < offset <= header.last_offset + 1:
        return NONE
    return header.leader_epoch


def changed_from(log: Log, place: Place) -> int | None:
    """The offset from which on a log differs from the one that was read up to a place; None: it
    does not, as far as is known. CorruptRecordsError."""
    return where_changed(
        place,
        lambda: epoch_of(log, place.offset),
        lambda: leader_epochs(Path(log.path)),
        lambda: (
            header
            for segment in log.segments
            for header in segment.slice(0, log.end_of(segment)).batches()
        ),
    )


def where_changed(
    place: Place,
    epoch: Callable[[], int],
    noted: Callable[[], Iterable[EpochEntry]],
    headers: Callable[[], Iterable[BatchHeader]],
) -> int | None:
    """The same of any log. `epoch`: that of the record before the place, now; `noted`: by the
    broker; `headers`: of all batches, which are read once, after a truncation."""
    if place.epoch == NONE or epoch() in (NONE, place.epoch):
        return None
    for entry in noted():
        if entry.epoch > place.epoch and entry.start_offset < place.offset:
            return entry.start_offset
    for header in headers():
        if header.leader_epoch > place.epoch:
            return min(header.base_offset, place.offset)
        if header.base_offset >= place.offset:
            return place.offset
    return place.offset
