"""Which brokers coordinate no transactions: those that only read, and those that are not alone.

Not here: what a coordinator does (test_coordinator.py)."""

from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.replication.replica import Leadership
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.transacting import NOW, ZERO, Producing, state
from tests.downconvert.broker.writable import writable_broker


def refusals(broker: Broker) -> set[ErrorCode]:
    producer = Producing(broker)
    body = Message(key="tx", key_type=1)
    found = ask(broker, ApiKey.FindCoordinator, 3, body)
    return {producer.begin(), ErrorCode(found.error_code)}


def test_a_broker_that_only_reads_coordinates_nothing(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        Producing(broker).begin()
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        assert refusals(broker) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, refused}
        producer = Producing(broker)
        assert producer.add(ZERO) == [refused]
        assert {producer.end(), producer.add_offsets(), producer.commit_offset(1)} == {refused}
        assert state(broker).error_code == ErrorCode.NOT_COORDINATOR
        listed = ask(broker, ApiKey.ListTransactions, 1, Message())
        assert listed.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("leader", [0, None])
def test_a_broker_that_is_not_alone_coordinates_nothing(broker: Broker, leader: int | None) -> None:
    """It is alone again if the controller moves the others' replicas away, even if it names no
    leader yet, or if the topic is deleted."""
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    first, second = broker.topics["t"].partitions.values()
    us = frozenset({0})
    both = Leadership(leader=0, leader_epoch=1, replicas=(0, 1), isr=us, alive=us, version=1)
    first.assign(both, NOW)
    assert refusals(broker) == {refused}
    second.assign(replace(both, leader=1), NOW)
    first.assign(replace(both, leader=leader, replicas=(0,), version=2), NOW)
    assert refusals(broker) == {refused}
    second.assign(replace(both, replicas=(0,), version=2), NOW)
    assert refusals(broker) == {ErrorCode.NONE}
    second.assign(replace(both, version=3), NOW)
    assert refusals(broker) == {refused}
    broker.topics.delete("t")
    assert refusals(broker) == {ErrorCode.NONE}
