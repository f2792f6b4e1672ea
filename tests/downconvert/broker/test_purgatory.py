"""A waiting request is completed once: when it is due, or when its time is up."""

from math import inf
from random import Random
from threading import Thread
from weakref import ref

import pytest

from downconvert.broker.exchange import Exchange
from downconvert.broker.owner import Owner
from downconvert.broker.purgatory import Purgatory
from downconvert.protocol.requests import Request, RequestHeader
from downconvert.protocol.schemas import ApiKey, Message

from .asking import someone

HEADER = RequestHeader(ApiKey.Fetch, 3, 7, None, 0)


class Waiter:
    def __init__(self, due: bool = False) -> None:
        self.due = due
        self.completed: list[tuple[float, bool]] = []
        self.looks = 0

    def is_due(self) -> bool:
        self.looks += 1
        return self.due

    def complete(self, now: float, *, timed_out: bool) -> None:
        self.completed.append((now, timed_out))


def exchange(owner: Owner) -> Exchange:
    return Exchange(someone(), Request(HEADER, Message(), 10), 0.0, owner=owner)


def test_a_due_operation_does_not_wait() -> None:
    purgatory, waiter = Purgatory(), Waiter(due=True)
    purgatory.watch(waiter, ["a"], 1.0, 9.0)
    assert waiter.completed == [(1.0, False)]
    assert len(purgatory) == 0


def test_notifying_a_key_completes_due_operations() -> None:
    purgatory, waiter, other = Purgatory(), Waiter(), Waiter()
    purgatory.watch(waiter, ["a", "b"], 1.0, 9.0)
    purgatory.watch(other, ["c"], 1.0, 9.0)
    waiter.due = other.due = True
    purgatory.complete_due(2.0)
    assert not waiter.completed, "nobody touched it"
    purgatory.notify("b")
    purgatory.complete_due(3.0)
    assert waiter.completed == [(3.0, False)]
    assert not other.completed


def test_time_runs_out_in_its_order() -> None:
    purgatory = Purgatory()
    waiters = [Waiter() for _ in range(3)]
    for waiter, deadline in zip(waiters, (5.0, 3.0, 4.0), strict=True):
        purgatory.watch(waiter, ["a"], 1.0, deadline)
    assert purgatory.next_deadline == 3.0
    purgatory.complete_due(4.5)
    assert [bool(waiter.completed) for waiter in waiters] == [False, True, True]
    assert purgatory.next_deadline == 5.0
    purgatory.complete_due(5.0)
    assert purgatory.next_deadline == inf


def test_a_deadline_that_is_past_completes_at_once() -> None:
    waiter = Waiter()
    Purgatory().watch(waiter, (), 2.0, 2.0)
    assert waiter.completed == [(2.0, True)]


def test_no_operation_is_completed_twice_by_several_threads() -> None:
    purgatory = Purgatory()
    waiters = [Waiter() for _ in range(300)]
    for number, waiter in enumerate(waiters):
        purgatory.watch(waiter, [number % 7, number % 5], 0.0, 1.0 + number % 3)

    def work(seed: int) -> None:
        random = Random(seed)
        for _ in range(300):
            random.choice(waiters).due = True
            purgatory.notify(random.randrange(7))
            purgatory.complete_due(random.uniform(0, 2))

    threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    purgatory.complete_due(9.0)
    assert [len(waiter.completed) for waiter in waiters] == [1] * len(waiters)
    assert len(purgatory) == 0


def test_the_owner_looks_and_completes_and_others_only_tell_it() -> None:
    purgatory, owner, waiter = Purgatory(), Owner(), Waiter()
    purgatory.watch(waiter, ["a"], 1.0, 9.0, exchange(owner))
    waiter.due, waiter.looks = True, 0
    for _ in range(1000):
        purgatory.notify("a")
        purgatory.complete_due(2.0)
    assert (waiter.looks, waiter.completed) == (0, [])
    assert owner.run_due(3.0)
    assert (waiter.looks, waiter.completed) == (1, [(3.0, False)])
    assert not owner.run_due(3.0), "it is told once until it looks"


def test_a_notification_during_the_owners_check_is_posted_again() -> None:
    purgatory, owner, waiter = Purgatory(), Owner(), Waiter()
    purgatory.watch(waiter, ["a"], 1.0, 9.0, exchange(owner))
    purgatory.notify("a")
    purgatory.complete_due(2.0)
    assert owner.run_due(2.0)
    assert not waiter.completed
    waiter.due = True
    purgatory.notify("a")
    purgatory.complete_due(3.0)
    assert owner.run_due(3.0)
    assert waiter.completed == [(3.0, False)]


def test_a_late_operation_is_posted_to_and_completed_by_its_owner() -> None:
    purgatory, owner, waiter = Purgatory(), Owner(), Waiter()
    purgatory.watch(waiter, ["a"], 1.0, 5.0, exchange(owner))
    purgatory.complete_due(4.0)
    assert not owner.has_work
    purgatory.complete_due(5.0)
    assert not waiter.completed
    assert purgatory.next_deadline == inf
    assert owner.run_due(5.1)
    assert waiter.completed == [(5.1, True)]


class Deadline(float):
    """Says when nothing refers to it any more."""


def test_completed_operations_are_released_while_others_wait() -> None:
    purgatory = Purgatory()
    purgatory.watch(Waiter(), ["never"], 0.0, 1.0)
    gone = []
    deadlines: list[ref[Deadline]] = []
    for number in range(1000):
        waiter, deadline = Waiter(), Deadline(900.0 + number)
        purgatory.watch(waiter, ["a"], 0.0, deadline)
        deadlines.append(ref(deadline))
        del deadline
        waiter.due = True
        purgatory.notify("a")
        purgatory.complete_due(0.5)
        assert waiter.completed
        gone.append(ref(waiter))
        del waiter
    assert [one for one in gone if one() is not None] == []
    assert len(purgatory) == 1
    assert sum(one() is not None for one in deadlines) < 100
    assert purgatory.next_deadline == 1.0


def test_an_operation_that_may_wait_no_longer_is_completed_by_its_owner_at_once() -> None:
    purgatory, owner, waiter, other = Purgatory(), Owner(), Waiter(), Waiter()
    one = exchange(owner)
    purgatory.expire(one)  # it does not wait
    purgatory.watch(waiter, ["a"], 1.0, 9.0, one)
    purgatory.watch(other, ["a"], 1.0, 9.0, exchange(owner))
    purgatory.expire(one)
    assert (waiter.completed, other.completed) == ([(0.0, True)], [])
    assert not owner.run_due(2.0)
    assert (len(purgatory), purgatory.next_deadline) == (1, 9.0)


def test_a_client_that_has_gone_is_forgotten() -> None:
    purgatory, owner, waiter = Purgatory(), Owner(), Waiter()
    one = exchange(owner)
    purgatory.watch(waiter, ["a", "b"], 0.0, 9.0, one)
    purgatory.forget(one)
    purgatory.forget(one)
    assert len(purgatory) == 0
    waiter.due = True
    purgatory.notify("a")
    purgatory.complete_due(10.0)
    assert not owner.has_work
    assert not waiter.completed


def test_a_defect_in_a_check_ends_its_own_exchange(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Waiter):
        def is_due(self) -> bool:
            if self.due:
                raise ValueError("a defect")
            return False

    purgatory, owner, bad, good = Purgatory(), Owner(), Bad(), Waiter()
    one = exchange(owner)
    purgatory.watch(bad, ["a"], 0.0, 9.0, one)
    purgatory.watch(good, ["a"], 0.0, 9.0, exchange(owner))
    bad.due = good.due = True
    purgatory.notify("a")
    purgatory.complete_due(1.0)
    while owner.run_due(1.0):
        pass
    assert one.close_after_reply
    assert good.completed
    assert len(caplog.records) == 1
