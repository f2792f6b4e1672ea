"""The content of a broker: of each kind, something that is the client's own, and something that is
another's. Names that nothing has yet are the client's, or another's, too."""

from time import time
from typing import Final

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.broker.topics import Topic
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, someone
from tests.downconvert.storage.logs import batch

from .operations import Names
from .rules import GROUP, ID, TOPIC

WHOSE: Final = ("own", "other", "own-absent", "other-absent")
NAMES: Final = {TOPIC: "t", GROUP: "g", ID: "id"}
KEPT: Final = {"retention.ms": "-1"}  # records stay as old as they are
NO_TOPIC: Final = bytes([7]) * 16  # an id


def name_of(kind: str, whose: str) -> str:
    """own-t, other-g, own-absent-id…"""
    return f"{whose}-{NAMES[kind]}"


def names(broker: Broker, whose: dict[str, str]) -> Names:
    """The names for a request: the given ones, and the client's own of all other kinds."""
    chosen = {kind: name_of(kind, whose.get(kind, "own")) for kind in NAMES}
    topic = broker.topics.get(chosen[TOPIC])
    topic_id = NO_TOPIC if topic is None else topic.id
    return Names(chosen[TOPIC], topic_id, chosen[GROUP], chosen[ID])


def restore(broker: Broker) -> None:
    """Everything is there that is not absent, as it was at the beginning."""
    for whose in WHOSE:
        topic, is_there = name_of(TOPIC, whose), not whose.endswith("absent")
        found = broker.topics.get(topic)
        is_changed = found is not None and (
            dict(found.config) != KEPT or len(found.partitions) != 1
        )
        if found is not None and (is_changed or not is_there):
            broker.topics.delete(topic)
            found = None
        if is_there and found is None:
            broker.topics.create(topic, 1, KEPT, 0)
            _write(broker, topic)
    for whose in WHOSE[:2]:
        offset = Message(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [Message(name=name_of(TOPIC, whose), partitions=[offset])]
        body = Message(group_id=name_of(GROUP, whose), topics=topics)
        body.generation_id_or_member_epoch = -1
        _ask(broker, ApiKey.OffsetCommit, 2, body)
        if broker.transactions.get(name_of(ID, whose)) is None:
            body = Message(transactional_id=name_of(ID, whose), transaction_timeout_ms=60_000)
            _ask(broker, ApiKey.InitProducerId, 0, body)


def state(broker: Broker) -> dict[str, str]:
    """By what it is of: something that differs once anybody has changed it."""
    found = {
        f"topic {name}": repr((topic.id, dict(topic.config), _ends(topic)))
        for name, topic in broker.topics.items()
        if not name.startswith("__")
    }
    asked = [Message(name=name_of(TOPIC, whose), partition_indexes=[0]) for whose in WHOSE]
    groups = [Message(group_id=name_of(GROUP, whose), topics=asked) for whose in WHOSE]
    for group in _ask(broker, ApiKey.OffsetFetch, 8, Message(groups=groups)).groups:
        offsets = [topic.partitions[0].committed_offset for topic in group.topics]
        found[f"group {group.group_id}"] = repr(offsets)
    for whose in WHOSE:
        name = name_of(ID, whose)
        found[f"id {name}"] = repr(broker.transactions.get(name))
    return found


def _ends(topic: Topic) -> list[tuple[int, int]]:
    return [(one.start_offset, one.end_offset) for one in topic.partitions.values()]


def _write(broker: Broker, topic: str) -> None:
    topics = [Message(name=topic, partition_data=[Message(index=0, records=batch(0))])]
    _ask(broker, ApiKey.Produce, 9, Message(acks=1, timeout_ms=0, topic_data=topics))


def _ask(broker: Broker, api: ApiKey, version: int, body: Message) -> Message:
    """Asks as the operator, beside the server."""
    return ask(broker, api, version, body, client=someone(access=Access()), now=time())
