"""OffsetFetch: the committed offsets of groups, per partition.

From version 2 on, null topics mean all offsets of the group. A partition without an offset gets -1,
and no error. From version 7 on, a client can require stable offsets. Then it must ask again while
an open transaction commits an offset of the partition [KIP-447]. The field for an error of the
whole group depends on the version."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.offsets import Committed, Partition
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

from .admin import each_once

NO_OFFSET: Final = -1
BATCHED: Final = 8  # the first version that asks for several groups
WITH_IDS: Final = 10  # the first version with topic ids


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body, version = exchange.request.body, exchange.request.version
    stable = bool(body.require_stable)
    if version >= BATCHED:
        # For a repeated group, the last request counts
        groups = {group.group_id: group for group in body.groups}
        responses = [_group(broker, one, version, now, stable=stable) for one in groups.values()]
        exchange.reply(Message(groups=responses))
    else:
        exchange.reply(_group(broker, body, version, now, stable=stable))


def _group(
    broker: BrokerState, asked: Message, version: int, now: float, *, stable: bool
) -> Message:
    committed, pending = broker.groups.committed(asked.group_id, now)
    offsets = _Offsets(committed, pending if stable else ())
    if asked.topics is None:
        topics = _all(broker, offsets, version)
    else:
        field = "topic_id" if version >= WITH_IDS else "name"
        named = each_once((getattr(one, field), one.partition_indexes) for one in asked.topics)
        topics = [_topic(broker, name, some, offsets) for name, some in named.items() if some]
    return Message(group_id=asked.group_id, topics=topics)


@dataclass(frozen=True, slots=True)
class _Offsets:
    """The committed offsets of a group, and those that an open transaction may change."""

    committed: Mapping[Partition, Committed]
    unstable: Collection[Partition]

    def response(self, topic: str, index: int) -> Message:
        if (topic, index) in self.unstable:
            return _none(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.committed.get((topic, index))
        if committed is None:
            return _none(index, ErrorCode.NONE)
        return Message(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            error_code=ErrorCode.NONE,
        )


def _all(broker: BrokerState, offsets: _Offsets, version: int) -> Iterable[Message]:
    topics = []
    for name, partitions in groupby(sorted(offsets.committed), key=lambda at: at[0]):
        known = broker.topics.get(name)
        if version >= WITH_IDS and known is None:
            continue  # the topic's id is unknown
        found = [offsets.response(name, index) for _, index in partitions]
        topics.append(
            Message(name=name, topic_id=known.id if known else bytes(16), partitions=found)
        )
    return topics


def _topic(
    broker: BrokerState, name: str | bytes, indices: list[int], offsets: _Offsets
) -> Message:
    """The offsets of a topic, by its name or its id."""
    if isinstance(name, str):
        return Message(name=name, partitions=[offsets.response(name, index) for index in indices])
    known = broker.topics.by_id(name)
    if known is None:
        found = [_none(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indices]
    else:
        found = [offsets.response(known.name, index) for index in indices]
    return Message(topic_id=name, partitions=found)


def _none(index: int, code: ErrorCode) -> Message:
    return Message(partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code)
