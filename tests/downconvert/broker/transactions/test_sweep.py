"""The periodic work of a coordinator: due once at a time, and as long as there is something."""

from typing import Any
from unittest.mock import Mock

import pytest

from downconvert.broker import BrokerConfig
from downconvert.broker.transactions.sweep import Sweep

CONFIG = BrokerConfig(
    transaction_abort_timed_out_transaction_cleanup_interval_ms=10_000,
    transaction_remove_expired_transaction_cleanup_interval_ms=25_000,
)


class Timers:
    """A purgatory that notes what it is to call, and when."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Any]] = []

    def call_at(self, deadline: float, run: Any, _now: float) -> None:
        self.due.append((deadline, run))

    def next(self) -> float:
        """Makes the next call, at its time."""
        assert len(self.due) == 1
        deadline, run = self.due.pop()
        run(deadline)
        return deadline


class Transactions:
    """Notes what is done with it."""

    def __init__(self, *ids: str) -> None:
        self.ids = dict.fromkeys(ids)
        self.done: list[tuple[str, float]] = []
        self.on_change: Any = None

    def all(self) -> dict[str, None]:
        return self.ids

    def complete_prepared(self, now: float) -> None:
        self.done.append(("complete", now))

    def abort_timed_out(self, now: float) -> None:
        self.done.append(("abort", now))

    def expire(self, now: float) -> None:
        self.done.append(("expire", now))


def swept(*ids: str) -> tuple[Any, Timers]:
    transactions: Any = Transactions(*ids)
    timers: Any = Timers()
    Sweep(transactions, CONFIG, timers)
    return transactions, timers


def test_transactions_of_an_earlier_run_are_looked_at_at_once_and_again() -> None:
    transactions, timers = swept("tx")
    assert [timers.next() for _ in range(4)] == [0.0, 10.0, 20.0, 30.0]
    assert [now for what, now in transactions.done if what == "abort"] == [0.0, 10.0, 20.0, 30.0]
    assert [now for what, now in transactions.done if what == "expire"] == [0.0, 30.0]
    assert transactions.done[:3] == [("complete", 0.0), ("abort", 0.0), ("expire", 0.0)]


def test_many_changes_set_one_timer() -> None:
    transactions, timers = swept()
    assert timers.due == []
    transactions.ids["tx"] = None
    for now in (100.0, 101.0, 102.0):
        transactions.on_change(now)
    assert timers.next() == 110.0
    transactions.on_change(111.0)  # the next look is set already
    assert timers.next() == 120.0


def test_a_coordinator_without_transactions_sets_no_timer() -> None:
    transactions, timers = swept("tx")
    transactions.ids.clear()
    timers.next()
    assert timers.due == []
    transactions.on_change(50.0)
    assert [deadline for deadline, _ in timers.due] == [60.0]


def test_a_sweep_is_repeated_after_a_defect() -> None:
    """The thread that keeps time logs the defect, and goes on."""
    transactions, timers = swept("tx")
    transactions.complete_prepared = fail = Mock(side_effect=RuntimeError("a defect"))
    with pytest.raises(RuntimeError, match="a defect"):
        timers.next()
    fail.side_effect = None
    assert timers.next() == 10.0
    assert transactions.done == [("abort", 10.0), ("expire", 10.0)]
