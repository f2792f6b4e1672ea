"""Batches, requests to produce them, and what is in the log afterwards."""

from typing import Any

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records import Record, TimestampType, build
from records.formats import V0, V1, V2

from .asking import ask

NOW = 1_700_000_000.5
NOW_MS = int(NOW * 1000)


def records(count: int = 3) -> list[Record]:
    return [
        Record(i, NOW_MS + i, TimestampType.CREATE, b"k%d" % i, b"v%d" % i) for i in range(count)
    ]


def batch(count: int = 3, **fields: Any) -> bytes:
    return build(records(count), **{"magic": V2, **fields})


def request(
    broker: Broker, *data: bytes | None, acks: int = 1, timeout_ms: int = 1000, topic: str = "t"
) -> Message:
    """For partitions 0, 1, ..."""
    found = broker.topics.get(topic)
    partitions = [Message(index=index, records=one) for index, one in enumerate(data)]
    topic_id = bytes(15) + b"?" if found is None else found.id
    topics = [Message(name=topic, topic_id=topic_id, partition_data=partitions)]
    return Message(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def produce(broker: Broker, version: int, *data: bytes | None, **fields: Any) -> list[Message]:
    """The responses for partitions 0, 1, ..."""
    response = ask(broker, ApiKey.Produce, version, request(broker, *data, **fields), now=NOW)
    (topic,) = response.responses
    found: list[Message] = topic.partition_responses
    assert [one.index for one in found] == list(range(len(data)))
    return found


def code(broker: Broker, version: int, data: bytes | None, **fields: Any) -> ErrorCode:
    return ErrorCode(produce(broker, version, data, **fields)[0].error_code)


def stored(broker: Broker, index: int = 0) -> list[Record]:
    partition = broker.topics.partition("t", index)
    assert partition is not None
    return list(partition.log.records())


def magic_of(version: int) -> int:
    """The message format that producers of this version send."""
    return V0 if version < 2 else V1 if version < 3 else V2
