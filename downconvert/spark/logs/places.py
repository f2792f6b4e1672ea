"""Positions of a stream in logs (the next offset and the leader epoch of the record before it), and
waits for missing offsets.

An offset alone does not identify a record: a truncated log has other records at the same offsets.
Offset and leader epoch together do (KIP-101, KIP-320). In a query's checkpoint a place is the JSON
`{"offset": 123, "leaderEpoch": 4, "topicId": "..."}`. It is the offset alone if neither epoch nor
id is known: in v0 and v1, in checkpoints of earlier versions, and if the preceding record was
deleted or compacted. A topic that was deleted and created again has another id.

A stream may wait for offsets that are still being copied (gaps.py). The JSON then also has
"waitingSince" and "waitingUpTo". Without these, a query that runs briefly each hour would wait for
ever.

Not here: up to which offset a stream can read (follow.py)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from downconvert.storage.checkpoints.checkpoint import EpochEntry
from downconvert.storage.names import TopicPartition
from records import BatchHeader
from records.batch import NONE


class Wait(NamedTuple):
    """When a stream began to wait for missing offsets, in milliseconds since the epoch, and the end
    of the log at that time."""

    since: int
    up_to: int


class Place(NamedTuple):
    """The next offset to read, the leader epoch of the record before it (-1: not known), and the
    topic id as text (None: not known)."""

    offset: int
    epoch: int = NONE
    wait: Wait | None = None
    topic_id: str | None = None

    def is_of(self, topic_id: str | None) -> bool:
        """Whether the place may belong to the topic with this id."""
        return None in (self.topic_id, topic_id) or self.topic_id == topic_id


Places: TypeAlias = dict[TopicPartition, Place]
Json: TypeAlias = dict[str, dict[str, Any]]


def to_json(places: Mapping[TopicPartition, Place]) -> Json:
    """The places in the form of Spark's checkpoints. Without epochs the form is that of Spark's
    Kafka source."""
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
    """Reads the output of `to_json`, also of earlier versions. ValueError: the JSON is something
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


def where_changed(
    place: Place,
    epoch: Callable[[], int],
    noted: Callable[[], Iterable[EpochEntry]],
    headers: Callable[[], Iterable[BatchHeader]],
) -> int | None:
    """The first offset at which a log differs from the one that was read up to a place; None: no
    difference is known. `epoch` returns the current leader epoch of the record before the place,
    `noted` the broker's leader epochs, and `headers` the headers of all batches. The latter is
    called at most once, and only after a truncation. CorruptRecordsError."""
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
