"""Transactions whose markers a partition does not take, and the lock around their end."""

from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.broker.transactions.state_topic import StateTopic
from downconvert.internal_topics.transaction import Transaction
from downconvert.protocol.errors import ErrorCode
from tests.downconvert.broker.transacting import NOW, Producing, state


def test_each_time_that_markers_are_stuck_is_logged_once(
    broker: Broker, producer: Producing, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator reads of each failure, but not of each attempt."""
    partition = broker.topics["t"].partitions[0]
    for number in (1, 2):
        producer.write([b"a"])
        partition.leader = None
        assert producer.end() is ErrorCode.NONE
        for _ in range(2):
            broker.transactions.complete_prepared(NOW)
        assert caplog.text.count("take no marker") == number
        partition.leader = partition.node_id
        broker.transactions.complete_prepared(NOW)
        assert state(broker).transaction_state == "CompleteCommit"


def test_every_step_is_stored_while_the_lock_is_held(
    broker: Broker, producer: Producing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other thread sees a state that is not stored yet, or stores one in between."""
    stored: list[tuple[str, bool]] = []
    store = StateTopic.store

    def note(topic: StateTopic, one: Transaction, *args: Any) -> ErrorCode:
        stored.append((one.state.title, broker.transactions.lock.locked()))
        return store(topic, one, *args)

    monkeypatch.setattr(StateTopic, "store", note)
    producer.write([b"a"])
    assert producer.end() is ErrorCode.NONE
    assert stored == [("Ongoing", True), ("PrepareCommit", True), ("CompleteCommit", True)]
