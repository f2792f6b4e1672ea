"""Transactions whose markers a partition does not take, and the lock around their end."""

from typing import Any
from unittest.mock import Mock

import pytest

from downconvert.broker import Broker
from downconvert.broker.transactions.markers import Markers
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
        assert caplog.text.count("no marker in 1 partitions; t-0") == number
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


@pytest.mark.parametrize("fails_at", ["store", "markers"])
def test_an_end_that_fails_once_is_completed_by_the_next_attempt(
    broker: Broker, producer: Producing, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    """The same holds if the markers are written and only the end cannot be stored, and after a
    defect."""
    producer.write([b"a"])
    store = StateTopic.store

    def fail(topic: StateTopic, one: Transaction, *args: Any) -> ErrorCode:
        is_complete = one.state.title == "CompleteCommit"
        return ErrorCode.NOT_COORDINATOR if is_complete else store(topic, one, *args)

    with monkeypatch.context() as failing:
        if fails_at == "store":
            failing.setattr(StateTopic, "store", fail)
            assert producer.end() is ErrorCode.NONE
        else:
            failing.setattr(Markers, "write", Mock(side_effect=RuntimeError("a defect")))
            with pytest.raises(RuntimeError, match="a defect"):
                producer.end()
    assert state(broker).transaction_state == "PrepareCommit"
    broker.transactions.complete_prepared(NOW)
    assert state(broker).transaction_state == "CompleteCommit"
