"""Operations that leave the purgatory leave nothing behind, and are completed once."""

from threading import Thread
from weakref import ref

from downconvert.broker.exchange import Exchange
from downconvert.broker.owner import Owner
from downconvert.broker.purgatory import STALE_MAX, Purgatory
from downconvert.protocol.requests import Request, RequestHeader
from downconvert.protocol.schemas import ApiKey, Message

from .asking import someone

HEADER = RequestHeader(ApiKey.Fetch, 3, 7, None, 0)


class Waiter:
    def __init__(self) -> None:
        self.due = False
        self.completed: list[bool] = []

    def is_due(self) -> bool:
        return self.due

    def complete(self, now: float, *, timed_out: bool) -> None:  # noqa: ARG002
        self.completed.append(timed_out)


class Key:
    """A key that a test can refer to weakly."""


class CompletedMeanwhile(Waiter):
    """Another thread completes the operation during its first check."""

    def __init__(self, purgatory: Purgatory) -> None:
        super().__init__()
        self._purgatory = purgatory
        self._is_first = True

    def is_due(self) -> bool:
        if self.due and self._is_first:
            self._is_first = False
            self._purgatory.notify("a")
            other = Thread(target=self._purgatory.complete_due, args=(2.0,))
            other.start()
            other.join()
        return self.due


def test_an_operation_that_another_thread_completes_during_the_check_is_completed_once() -> None:
    """Only the thread that removes an operation completes it."""
    purgatory = Purgatory()
    waiter = CompletedMeanwhile(purgatory)
    purgatory.watch(waiter, ["a"], 1.0, 9.0)
    waiter.due = True
    purgatory.notify("a")
    purgatory.complete_due(2.0)
    assert waiter.completed == [False]


def test_deadlines_keep_their_order_after_completed_operations_are_dropped() -> None:
    """The next deadline is the earliest one of the operations that still wait."""
    purgatory = Purgatory()
    # The late one is watched early and the soon one last, so the late one stands before it.
    deadlines = [10.0, 1000.0, *(10.0 + n for n in range(1, STALE_MAX + 3)), 500.0]
    waiters = [Waiter() for _ in deadlines]
    for number, (deadline, waiter) in enumerate(zip(deadlines, waiters, strict=True)):
        purgatory.watch(waiter, [number], 1.0, deadline)
    for number, (deadline, waiter) in enumerate(zip(deadlines, waiters, strict=True)):
        if deadline < 500.0:
            waiter.due = True
            purgatory.notify(number)
    purgatory.complete_due(2.0)
    for deadline in (500.0, 1000.0):
        assert purgatory.next_deadline() == deadline
        purgatory.complete_due(deadline)
        assert waiters[deadlines.index(deadline)].completed == [True]


def test_a_key_is_released_with_its_last_operation() -> None:
    """The purgatory refers to no key that nothing waits for."""
    purgatory, key = Purgatory(), Key()
    seen = ref(key)
    waiters = [Waiter(), Waiter()]
    for waiter in waiters:
        purgatory.watch(waiter, [key], 1.0, 9.0)
    purgatory.notify(key)
    del key
    waiters[0].due = True
    purgatory.complete_due(2.0)
    assert seen() is not None
    purgatory.complete_due(9.0)
    assert len(purgatory) == 0
    assert seen() is None


def test_a_later_operation_of_an_exchange_is_found_after_an_earlier_one_was_completed() -> None:
    """A client that has gone is forgotten with the operation that it began last."""
    purgatory, owner = Purgatory(), Owner()
    one = Exchange(someone(), Request(HEADER, Message(), 10), 0.0, owner=owner)
    first, second = Waiter(), Waiter()
    purgatory.watch(first, ["a"], 1.0, 9.0, one)
    purgatory.watch(second, ["b"], 1.0, 9.0, one)
    first.due = True
    purgatory.notify("a")
    purgatory.complete_due(2.0)
    while owner.run_due(2.0):
        pass
    assert first.completed == [False]
    purgatory.forget(one)
    assert len(purgatory) == 0
