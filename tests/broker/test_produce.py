"""Produce: what is answered, at every version, and what is in the log afterwards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker import Broker, BrokerConfig
from broker.errors import ErrorCode
from broker.schemas import ApiKey, Message
from records import Record, TimestampType, build
from records.formats import V0, V1, V2
from storage import LogDir, TopicPartition
from tests.broker.asking import ask

NOW = 1_700_000_000.5
NOW_MS = int(NOW * 1000)
VERSIONS = range(14)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    yield from open_broker(tmp_path)


def open_broker(path: Path, **config: Any) -> Iterator[Broker]:
    with LogDir.open(path, writable=True) as log_dir:
        for index in range(2):
            log_dir.logs.create(TopicPartition("t", index))
        yield Broker(log_dir, BrokerConfig(is_writable=True, **config))


def records(count: int = 3, start: int = 0) -> list[Record]:
    return [
        Record(start + i, NOW_MS + i, TimestampType.CREATE, b"k%d" % i, b"v%d" % i)
        for i in range(count)
    ]


def batch(count: int = 3, **fields: Any) -> bytes:
    return build(records(count), **{"magic": V2, **fields})


def body(
    broker: Broker, *data: bytes | None, acks: int = 1, timeout_ms: int = 1000, topic: str = "t"
) -> Message:
    """A request for partitions 0, 1, ..."""
    found = broker.topics.get(topic)
    partitions = [Message(index=index, records=one) for index, one in enumerate(data)]
    topic_id = bytes(16) if found is None else found.id
    topics = [Message(name=topic, topic_id=topic_id, partition_data=partitions)]
    return Message(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def produce(broker: Broker, version: int, *data: bytes | None, **fields: Any) -> list[Message]:
    """The answers for partitions 0, 1, ..."""
    answer = ask(broker, ApiKey.Produce, version, body(broker, *data, **fields), now=NOW)
    (topic,) = answer.responses
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
    return V0 if version < 2 else V1 if version < 3 else V2


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_appends_and_says_where(broker: Broker, version: int) -> None:
    for round_ in range(2):
        data = batch(magic=magic_of(version))
        first, second = produce(broker, version, data, data)
        assert (first.error_code, second.error_code) == (0, 0)
        assert (first.base_offset, second.base_offset) == (3 * round_, 3 * round_)
        assert first.log_append_time_ms == -1
        assert first.log_start_offset == (0 if version >= 5 else -1)
    found = stored(broker)
    assert [record.offset for record in found] == list(range(6))
    assert [(r.key, r.value) for r in found] == [(r.key, r.value) for r in records()] * 2
    times = [-1] * 3 if magic_of(version) == V0 else [r.timestamp for r in records()]
    assert [record.timestamp for record in found] == times * 2
