"""Administrators see transactions: ListTransactions, DescribeTransactions,
DescribeProducers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, someone
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.transacting import NOW, TIMEOUT_MS, Producing, state
from tests.downconvert.broker.writable import writable_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", "u") as broker:
        yield broker


def begun(broker: Broker, name: str, now: float = NOW) -> Producing:
    producer = Producing(broker, name, now)
    producer.begin()
    return producer


def listed(broker: Broker, version: int = 1, **asked: Any) -> list[str]:
    body = Message(**{"state_filters": [], "producer_id_filters": []} | asked)
    found = ask(broker, ApiKey.ListTransactions, version, body, now=NOW + 2)
    return [one.transactional_id for one in found.transaction_states]


def test_transactions_are_listed_by_state_producer_and_duration(broker: Broker) -> None:
    idle, old, young = begun(broker, "idle"), begun(broker, "old"), begun(broker, "young", NOW + 1)
    old.add(("t", 0))
    young.add(("t", 0))
    assert listed(broker) == ["idle", "old", "young"]
    assert listed(broker, state_filters=["Ongoing"]) == ["old", "young"]
    assert listed(broker, producer_id_filters=[idle.id, young.id]) == ["idle", "young"]
    assert listed(broker, duration_filter=1500) == ["old"]
    assert listed(broker, 0, state_filters=["Empty"]) == ["idle"]


def test_unknown_states_are_listed(broker: Broker) -> None:
    body = Message(state_filters=["Ongoing", "Odd"])
    found = ask(broker, ApiKey.ListTransactions, 0, body)
    assert (found.unknown_state_filters, found.transaction_states) == (["Odd"], [])


def test_a_transaction_is_described(broker: Broker) -> None:
    producer = begun(broker, "tx")
    producer.add(("t", 0), ("u", 0))
    one = state(broker)
    assert (one.error_code, one.transaction_state) == (0, "Ongoing")
    assert (one.producer_id, one.producer_epoch) == (producer.id, producer.epoch)
    assert (one.transaction_timeout_ms, one.transaction_start_time_ms) == (TIMEOUT_MS, NOW * 1000)
    assert [(topic.topic, topic.partitions) for topic in one.topics] == [("t", [0]), ("u", [0])]
    assert state(broker, "none").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert state(broker, "").error_code == ErrorCode.INVALID_REQUEST


def test_a_partition_lists_its_producers(broker: Broker) -> None:
    producer = begun(broker, "tx")
    producer.write([b"a", b"b"])
    topics = [Message(name="t", partition_indexes=[0, 1])]
    found = ask(broker, ApiKey.DescribeProducers, 0, Message(topics=topics))
    first, second = found.topics[0].partitions
    (one,) = first.active_producers
    assert (one.producer_id, one.producer_epoch) == (producer.id, producer.epoch)
    assert (one.last_sequence, one.last_timestamp) == (1, NOW * 1000)
    assert (one.coordinator_epoch, one.current_txn_start_offset) == (-1, 0)
    assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    producer.end()
    found = ask(broker, ApiKey.DescribeProducers, 0, Message(topics=topics))
    (one,) = found.topics[0].partitions[0].active_producers
    assert (one.coordinator_epoch, one.current_txn_start_offset) == (0, -1)


def test_clients_see_what_they_may_name_only(broker: Broker) -> None:
    begun(broker, "mine").add(("t", 0), ("u", 0))
    begun(broker, "other")
    broker.guard = guard_of(None, Access(transactional_ids=("mine",), topics=("t",)))
    client = someone()

    def asked(api: ApiKey, body: Message, version: int = 0) -> Message:
        return ask(broker, api, version, body, client=client)

    states = asked(ApiKey.ListTransactions, Message()).transaction_states
    assert [one.transactional_id for one in states] == ["mine"]
    names = Message(transactional_ids=["mine", "other"])
    mine, other = asked(ApiKey.DescribeTransactions, names).transaction_states
    assert [topic.topic for topic in mine.topics] == ["t"]
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert other.error_code == refused
    body = Message(transactional_id="other", transaction_timeout_ms=1)
    assert asked(ApiKey.InitProducerId, body).error_code == refused
    body = Message(transactional_id="other", producer_id=0, producer_epoch=0, committed=True)
    assert asked(ApiKey.EndTxn, body).error_code == refused
    found = asked(ApiKey.FindCoordinator, Message(key="other", key_type=1), 1)
    assert found.error_code == refused


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_in_every_version(broker: Broker, version: int) -> None:
    assert begun(broker, "tx").add(("t", 0), ("u", 0), version=version) == [ErrorCode.NONE] * 2


@pytest.mark.parametrize("version", range(5))
def test_offsets_are_committed_and_transactions_ended_in_every_version(
    broker: Broker, version: int
) -> None:
    producer = begun(broker, "tx")
    assert producer.add_offsets(version=version) is ErrorCode.NONE
    assert producer.commit_offset(1, version=version) is ErrorCode.NONE
    assert producer.end(version=version) is ErrorCode.NONE
