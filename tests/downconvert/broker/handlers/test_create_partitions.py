"""CreatePartitions: more, never fewer."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.handlers.admin import PARTITIONS_MAX
from downconvert.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.offset_logs import commit, fetch
from tests.downconvert.broker.writable import writable_broker


def enlarge(
    broker: Broker, version: int, *topics: tuple[str, int], **fields: Any
) -> list[ErrorCode]:
    assignments = fields.pop("assignments", None)
    asked = [Message(name=name, count=count, assignments=assignments) for name, count in topics]
    body = Message(topics=asked, timeout_ms=1000, **{"validate_only": False, **fields})
    results = ask(broker, ApiKey.CreatePartitions, version, body).results
    return [ErrorCode(one.error_code) for one in results]


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_to_the_same_topic(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t") as broker:
        topic_id, first = broker.topics["t"].id, broker.topics["t"].partitions[0]
        assert enlarge(broker, version, ("t", 3)) == [ErrorCode.NONE]
        assert sorted(broker.topics["t"].partitions) == [0, 1, 2]
        assert broker.topics["t"].partitions[0] is first
    with LogDir.open(tmp_path) as log_dir:
        found = Broker(log_dir, BrokerConfig()).topics["t"]
        assert (found.id, len(found.partitions)) == (topic_id, 3)


def test_impossible_numbers_and_assignments_of_partitions_are_refused(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        for count in (2, 1, 0, -1, PARTITIONS_MAX + 1, 2**31 - 1):
            assert enlarge(broker, 3, ("t", count)) == [ErrorCode.INVALID_PARTITIONS]
        unknown, twice = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST
        assert enlarge(broker, 3, ("none", 3)) == [unknown]
        assert enlarge(broker, 3, ("t", 3), ("t", 4)) == [twice]
        elsewhere = [Message(broker_ids=[4])]
        invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert enlarge(broker, 3, ("t", 3), assignments=elsewhere) == [invalid]
        assert enlarge(broker, 3, ("t", 4), assignments=[Message(broker_ids=[0])]) == [invalid]
        assert enlarge(broker, 3, ("t", 3), validate_only=True) == [ErrorCode.NONE]
        assert len(broker.topics["t"].partitions) == 2
        assert enlarge(broker, 3, ("t", 3), assignments=[Message(broker_ids=[0])]) == [
            ErrorCode.NONE
        ]
        assert len(broker.topics["t"].partitions) == 3


def test_only_the_partitions_after_those_that_are_here_are_made(tmp_path: Path) -> None:
    for index in (0, 3):
        (tmp_path / f"t-{index}").mkdir()
    with writable_broker(tmp_path) as broker:
        assert enlarge(broker, 3, ("t", 4)) == [ErrorCode.INVALID_PARTITIONS]
        assert enlarge(broker, 3, ("t", 5)) == [ErrorCode.NONE]
        assert sorted(broker.topics["t"].partitions) == [0, 3, 4]


@pytest.mark.parametrize("group", [f"g{number}" for number in range(6)])
def test_groups_keep_their_offsets_when_the_topic_of_offsets_grows(
    tmp_path: Path, group: str
) -> None:
    """Most groups are then in another partition, and have older records in the one before."""
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        assert [commit(broker, 3, group), commit(broker, 4, group, ("t", 1))] == [0, 0]
        assert enlarge(broker, 3, (OFFSETS_TOPIC, 5)) == [ErrorCode.NONE]
        assert len(broker.topics[OFFSETS_TOPIC].partitions) == 5
        assert [fetch(broker, group), fetch(broker, group, ("t", 1))] == [(3, 0), (4, 0)]
        assert commit(broker, 7, group) == 0
    for count in (5, 9):
        with writable_broker(tmp_path) as broker:
            assert [fetch(broker, group), fetch(broker, group, ("t", 1))] == [(7, 0), (4, 0)]
            if count == 5:
                assert enlarge(broker, 3, (OFFSETS_TOPIC, 9)) == [ErrorCode.NONE]
    with writable_broker(tmp_path) as broker:
        groups = Message(groups_names=[group])
        (deleted,) = ask(broker, ApiKey.DeleteGroups, 2, groups).results
        assert deleted.error_code == ErrorCode.NONE
        for partition in broker.topics[OFFSETS_TOPIC].partitions.values():
            last = {record.key: record.value for record in partition.log.records()}
            assert set(last.values()) <= {None}


def test_groups_that_are_deleted_after_the_topic_grew_leave_nothing_in_their_old_partitions(
    tmp_path: Path,
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.create(OFFSETS_TOPIC, 3, {}, 0)
        names = [f"g{number}" for number in range(12)]
        assert [commit(broker, 3, name) for name in names] == [0] * len(names)
        assert enlarge(broker, 3, (OFFSETS_TOPIC, 5)) == [ErrorCode.NONE]
        ask(broker, ApiKey.DeleteGroups, 2, Message(groups_names=names))
        for partition in broker.topics[OFFSETS_TOPIC].partitions.values():
            last = {record.key: record.value for record in partition.log.records()}
            assert set(last.values()) <= {None}


@pytest.mark.parametrize("name", [f"id-{number}" for number in range(6)])
def test_a_transactional_id_keeps_its_epoch_when_the_topic_of_transactions_grows(
    tmp_path: Path, name: str
) -> None:
    asked = Message(
        transactional_id=name, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
    )
    epochs = []
    for count in (3, 7, 9):
        with writable_broker(tmp_path) as broker:
            epochs.append(ask(broker, ApiKey.InitProducerId, 4, asked).producer_epoch)
            assert enlarge(broker, 3, (TRANSACTIONS_TOPIC, count)) == [ErrorCode.NONE]
            epochs.append(ask(broker, ApiKey.InitProducerId, 4, asked).producer_epoch)
    assert epochs == list(range(6))
