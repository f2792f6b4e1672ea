"""Operations that are due and late at once, or that several threads and requests know.

Not here: what completes an operation (test_purgatory.py)."""

from math import inf
from random import Random
from weakref import ref

from downconvert.broker.owner import Owner
from downconvert.broker.purgatory import STALE_MAX, Purgatory

from .test_purgatory import Waiter, exchange


class Key:
    """A key that nobody else knows."""


def test_an_operation_that_is_due_at_its_deadline_has_not_timed_out() -> None:
    """An operation that is due is completed as such, even if it is late."""
    purgatory, waiter = Purgatory(), Waiter()
    purgatory.watch(waiter, (), 0.0, 5.0)
    waiter.due = True
    purgatory.complete_due(6.0)
    assert waiter.completed == [(6.0, False)]


def test_an_operation_that_another_thread_completes_meanwhile_is_completed_once() -> None:
    """Another thread may complete an operation while this one looks whether it is due."""

    class Contested(Waiter):
        def is_due(self) -> bool:
            if self.due and self.looks == 1:
                super().is_due()
                purgatory.notify("a")  # as another thread would
                purgatory.complete_due(2.0)
            return super().is_due()

    purgatory, waiter = Purgatory(), Contested()
    purgatory.watch(waiter, ["a"], 0.0, 5.0)
    waiter.due = True
    purgatory.notify("a")
    purgatory.complete_due(2.0)
    assert waiter.completed == [(2.0, False)]


def test_an_operation_that_another_thread_expires_meanwhile_is_completed_once() -> None:
    """Another thread may time an operation out while this one looks whether it is due."""

    class Contested(Waiter):
        def is_due(self) -> bool:
            super().is_due()
            if self.looks == 2:
                purgatory.notify("a")  # as another thread would
                purgatory.complete_due(7.0)
            return False

    purgatory, waiter = Purgatory(), Contested()
    purgatory.watch(waiter, ["a"], 0.0, 5.0)
    purgatory.complete_due(6.0)
    assert waiter.completed == [(7.0, True)]


def test_a_key_that_is_notified_while_the_owner_looks_is_looked_at_again() -> None:
    """The owner may have looked before the change, and finds out in another step."""

    class Contested(Waiter):
        def is_due(self) -> bool:
            found = super().is_due()
            if self.looks == 2:
                self.due = True
                purgatory.notify("a")  # as another thread would
                purgatory.complete_due(2.0)
            return found

    purgatory, owner, waiter = Purgatory(), Owner(), Contested()
    purgatory.watch(waiter, ["a"], 0.0, 9.0, exchange(owner))
    purgatory.notify("a")
    purgatory.complete_due(1.0)
    while owner.run_due(3.0):
        pass
    assert waiter.completed == [(3.0, False)]


def test_a_deadline_that_another_thread_sees_first_is_not_forgotten() -> None:
    """The clock of the thread that keeps time may be past a deadline that is just being added."""

    class Deadline(float):
        def __le__(self, now: float) -> bool:
            purgatory.complete_due(6.0)  # as another thread would
            return float(self) <= now

    purgatory, owner, waiter = Purgatory(), Owner(), Waiter()
    purgatory.watch(waiter, ["a"], 0.0, Deadline(5.0), exchange(owner))
    purgatory.complete_due(7.0)
    while owner.run_due(7.0):
        pass
    assert waiter.completed == [(7.0, True)]


def test_a_request_that_waits_says_so_afterwards() -> None:
    """A request knows that it has waited, because its log line differs."""
    one = exchange(Owner())
    assert not one.has_waited
    Purgatory().watch(Waiter(), ["a"], 0.0, 5.0, one)
    assert one.has_waited


def test_a_purgatory_with_a_notified_key_is_not_idle() -> None:
    """A broker is idle only when every notified key has been looked at."""
    purgatory, waiter = Purgatory(), Waiter()
    assert (len(purgatory), list(purgatory.notified)) == (0, [])
    purgatory.watch(waiter, ["a"], 0.0, 5.0)
    assert (len(purgatory), list(purgatory.notified)) == (1, [])
    purgatory.notify("a")
    waiter.due = True
    assert list(purgatory.notified) == ["a"]
    purgatory.complete_due(0.0)
    assert (len(purgatory), list(purgatory.notified)) == (0, [])


def test_a_key_without_waiting_operations_is_not_noted() -> None:
    purgatory = Purgatory()
    purgatory.watch(Waiter(), ["a"], 0.0, 5.0)
    purgatory.notify("b")
    assert not purgatory.notified


def test_time_is_kept_by_the_earliest_operation_that_still_waits() -> None:
    purgatory, early, late = Purgatory(), Waiter(), Waiter()
    assert purgatory.next_deadline == inf
    purgatory.watch(late, ["late"], 0.0, 9.0)
    purgatory.watch(early, ["early"], 0.0, 5.0)
    purgatory.complete_due(1.0)
    assert purgatory.next_deadline == 5.0
    early.due = True
    purgatory.notify("early")
    purgatory.complete_due(2.0)
    assert (early.completed, purgatory.next_deadline) == ([(2.0, False)], 9.0)
    purgatory.complete_due(9.0)
    assert (late.completed, purgatory.next_deadline) == ([(9.0, True)], inf)


def test_a_key_is_released_with_its_last_operation() -> None:
    """A key takes memory only while something waits for it."""
    purgatory, key, waiters = Purgatory(), Key(), [Waiter(), Waiter()]
    seen = ref(key)
    for waiter in waiters:
        purgatory.watch(waiter, [key], 0.0, 5.0)
    purgatory.notify(key)
    del key
    waiters[0].due = True
    purgatory.complete_due(1.0)
    assert seen() is not None
    purgatory.complete_due(5.0)
    assert all(waiter.completed for waiter in waiters)
    assert len(purgatory) == 0
    assert seen() is None


def test_a_request_that_waits_again_is_forgotten_as_it_waits_now() -> None:
    """The end of an earlier wait leaves the request's later one to be forgotten."""
    purgatory, owner, first, second = Purgatory(), Owner(), Waiter(), Waiter()
    one = exchange(owner)
    purgatory.watch(first, ["a"], 0.0, 9.0, one)
    purgatory.watch(second, ["b"], 0.0, 9.0, one)
    first.due = True
    purgatory.notify("a")
    purgatory.complete_due(1.0)
    assert owner.run_due(1.0)
    assert first.completed
    purgatory.forget(one)
    assert len(purgatory) == 0


def test_an_operation_with_a_key_twice_is_completed_once() -> None:
    """Two equal keys count as one."""
    purgatory, waiter = Purgatory(), Waiter()
    purgatory.watch(waiter, ["a", "a"], 0.0, 9.0)
    waiter.due = True
    purgatory.notify("a")
    purgatory.complete_due(1.0)
    assert waiter.completed == [(1.0, False)]
    assert len(purgatory) == 0


def test_the_next_deadline_is_the_earliest_after_many_operations_are_completed() -> None:
    """The order of deadlines survives the removal of many completed operations."""
    purgatory, random = Purgatory(), Random(1)
    left: dict[float, Waiter] = {}
    for number in random.sample(range(1000), 400):
        left[float(number)] = waiter = Waiter()
        purgatory.watch(waiter, [float(number)], -1.0, float(number))
    for deadline in random.sample(sorted(left), 380):
        left.pop(deadline).due = True
        purgatory.notify(deadline)
        purgatory.complete_due(-1.0)
    for deadline in sorted(left):
        assert purgatory.next_deadline == deadline
        purgatory.complete_due(deadline)
        assert left[deadline].completed == [(deadline, True)]
    assert purgatory.next_deadline == inf


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
        assert purgatory.next_deadline == deadline
        purgatory.complete_due(deadline)
        assert waiters[deadlines.index(deadline)].completed == [(deadline, True)]


def test_an_operation_that_expires_can_make_others_due() -> None:
    """A key that is notified at a deadline is looked at in the same call."""
    purgatory, waiter = Purgatory(), Waiter()
    purgatory.watch(waiter, ["a"], 0.0, 9.0)

    def at_deadline(_now: float) -> None:
        waiter.due = True
        purgatory.notify("a")

    purgatory.call_at(5.0, at_deadline, 0.0)
    purgatory.complete_due(5.0)
    assert waiter.completed == [(5.0, False)]
