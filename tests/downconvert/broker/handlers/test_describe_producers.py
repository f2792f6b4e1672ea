"""DescribeProducers: the producers of each partition, and each partition's error."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.partition import Partition
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import CorruptFileError
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.transacting import NOW, Producing
from tests.downconvert.broker.writable import writable_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", "u", partitions=2) as made:
        yield made


def described(broker: Broker, **topics: list[int]) -> list[list[Message]]:
    asked = [
        Message(name=name.replace("___", "/"), partition_indexes=indices)
        for name, indices in topics.items()
    ]
    found = ask(broker, ApiKey.DescribeProducers, 0, Message(topics=asked))
    return [topic.partitions for topic in found.topics]


def test_each_producer_is_described_with_its_own_values(broker: Broker) -> None:
    first, second = Producing(broker, "one"), Producing(broker, "two", NOW + 5)
    for producer in (first, second, second):  # the second one has a later epoch
        assert producer.begin() is ErrorCode.NONE
    first.write([b"a", b"b", b"c"], ("t", 1))
    second.write([b"d"], ("t", 1))
    ((empty, both), _) = described(broker, t=[0, 1], u=[1])
    assert (empty.error_code, empty.partition_index, empty.active_producers) == (0, 0, [])
    found = {
        one.producer_id: (
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset,
        )
        for one in both.active_producers
    }
    assert found == {
        first.id: (0, 2, int(NOW * 1000), 0),
        second.id: (1, 0, int(NOW * 1000) + 5_000, 3),
    }


def test_absent_partitions_are_named(broker: Broker) -> None:
    found = described(broker, t=[5], none=[1], a___b=[0])
    assert [[(one.partition_index, one.error_code) for one in part] for part in found] == [
        [(5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        [(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        [(0, ErrorCode.INVALID_TOPIC_EXCEPTION)],
    ]


def test_only_the_leader_knows_its_producers(broker: Broker) -> None:
    broker.topics["t"].partitions[0].leader = 7
    ((first, second),) = described(broker, t=[0, 1])
    assert first.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert second.error_code == ErrorCode.NONE


@pytest.mark.parametrize("error", [OSError("gone"), CorruptFileError("damaged", Path("snapshot"))])
def test_a_disk_that_fails_is_a_partitions_error(
    error: Exception, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Partition) -> None:
        raise error

    monkeypatch.setattr(Partition, "producers", fails)
    ((one,),) = described(broker, t=[1])
    assert (one.error_code, one.partition_index) == (ErrorCode.KAFKA_STORAGE_ERROR, 1)
    assert one.error_message == str(error)
