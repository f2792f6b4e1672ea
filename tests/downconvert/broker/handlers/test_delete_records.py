"""DeleteRecords: the start of the log moves, and says where it is."""

from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.replication.replica import Leadership
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch


def delete(broker: Broker, version: int, offset: int, index: int = 0) -> tuple[ErrorCode, int]:
    """Error code and low watermark."""
    partition = Message(partition_index=index, offset=offset)
    body = Message(topics=[Message(name="t", partitions=[partition])], timeout_ms=1000)
    (topic,) = ask(broker, ApiKey.DeleteRecords, version, body).topics
    (one,) = topic.partitions
    return ErrorCode(one.error_code), one.low_watermark


def fill(broker: Broker) -> None:
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.log.writer.append(batch(0, 1, 2, 3, 4))


@pytest.mark.parametrize("version", range(3))
def test_the_start_moves_forward_only(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t") as broker:
        fill(broker)
        assert delete(broker, version, 2) == (ErrorCode.NONE, 2)
        assert delete(broker, version, 1) == (ErrorCode.NONE, 2)
        assert delete(broker, version, 6) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert delete(broker, version, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    with writable_broker(tmp_path) as broker:
        assert delete(broker, version, 0) == (ErrorCode.NONE, 2)
        assert delete(broker, version, -1) == (ErrorCode.NONE, 5)


def test_absent_partitions_and_compacted_topics_are_refused(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        fill(broker)
        assert delete(broker, 2, 1, index=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        broker.topics.configure("t", {"cleanup.policy": "compact"})
        assert delete(broker, 2, 1) == (ErrorCode.POLICY_VIOLATION, -1)


def test_only_the_leader_deletes_and_only_what_is_committed(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        partition = broker.topics["t"].partitions[0]
        both = frozenset({0, 1})
        leadership = Leadership(
            leader=0, leader_epoch=1, replicas=(0, 1), isr=both, alive=both, version=1
        )
        partition.assign(leadership, 0.0)
        fill(broker)
        partition.follower_fetched(1, 3, 1.0)
        assert delete(broker, 2, 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert delete(broker, 2, -1) == (ErrorCode.NONE, 3)
        assert delete(broker, 2, 3) == (ErrorCode.NONE, 3)
        partition.leader = 1
        assert delete(broker, 2, 3) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_topic_that_is_also_compacted_may_be_shortened(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        fill(broker)
        broker.topics.configure("t", {"cleanup.policy": "compact,delete"})
        assert delete(broker, 2, 2) == (ErrorCode.NONE, 2)
