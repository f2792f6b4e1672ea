"""OffsetFetch: what groups have committed, per partition.

Null topics, from version 2 on, are all that the group has. A partition without an offset is no
error: its offset is -1. Where an error goes that concerns a whole group depends on the version."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final

from downconvert.broker.errors import ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.offsets import Committed, Partition
from downconvert.broker.wire.schemas import Message

if TYPE_CHECKING:
    from downconvert.broker.broker import Broker

NO_OFFSET: Final = -1
BATCHED: Final = 8  # the first version that asks for several groups
WITH_IDS: Final = 10  # the first version whose topics are ids


def handle(broker: "Broker", exchange: Exchange, now: float) -> None:
    body, version = exchange.request.body, exchange.request.version
    if version >= BATCHED:
        answers = [_group(broker, group, version, now) for group in body.groups]
        exchange.reply(Message(groups=answers))
    else:
        exchange.reply(_group(broker, body, version, now))


def _group(broker: "Broker", asked: Message, version: int, now: float) -> Message:
    committed = broker.groups.committed(asked.group_id, now)
    if asked.topics is None:
        topics = _all(broker, committed, version)
    else:
        topics = [_topic(broker, topic, committed, version) for topic in asked.topics]
    return Message(group_id=asked.group_id, topics=topics)


def _all(
    broker: "Broker", committed: Mapping[Partition, Committed], version: int
) -> Iterable[Message]:
    topics = []
    for name, partitions in groupby(sorted(committed), key=lambda partition: partition[0]):
        known = broker.topics.get(name)
        if version >= WITH_IDS and known is None:
            continue  # it cannot be named
        found = [_partition(index, committed[topic, index]) for topic, index in partitions]
        topics.append(
            Message(name=name, topic_id=known.id if known else bytes(16), partitions=found)
        )
    return topics


def _topic(
    broker: "Broker", asked: Message, committed: Mapping[Partition, Committed], version: int
) -> Message:
    indices = asked.partition_indexes
    if version < WITH_IDS:
        found = [_partition(index, committed.get((asked.name, index))) for index in indices]
        return Message(name=asked.name, partitions=found)
    known = broker.topics.by_id(asked.topic_id)
    if known is None:
        found = [_partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in indices]
    else:
        found = [_partition(index, committed.get((known.name, index))) for index in indices]
    return Message(topic_id=asked.topic_id, partitions=found)


def _partition(
    index: int, committed: Committed | None, code: ErrorCode = ErrorCode.NONE
) -> Message:
    if committed is None:
        return Message(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
        )
    return Message(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )
