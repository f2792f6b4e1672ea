"""What waits is completed once: when it is due, or when its time is up."""

from random import Random
from threading import Thread

from downconvert.broker.purgatory import Purgatory


class Waiter:
    def __init__(self, due: bool = False) -> None:
        self.due = due
        self.completed: list[tuple[float, bool]] = []

    def is_due(self) -> bool:
        return self.due

    def complete(self, now: float, *, timed_out: bool) -> None:
        self.completed.append((now, timed_out))


def test_who_is_due_does_not_wait() -> None:
    purgatory, waiter = Purgatory(), Waiter(due=True)
    purgatory.watch(waiter, ["a"], 1.0, 9.0)
    assert waiter.completed == [(1.0, False)]
    assert len(purgatory) == 0


def test_a_touch_of_a_key_completes_who_is_due_then() -> None:
    purgatory, waiter, other = Purgatory(), Waiter(), Waiter()
    purgatory.watch(waiter, ["a", "b"], 1.0, 9.0)
    purgatory.watch(other, ["c"], 1.0, 9.0)
    waiter.due = other.due = True
    purgatory.settle(2.0)
    assert not waiter.completed, "nobody touched it"
    purgatory.touch("b")
    purgatory.settle(3.0)
    assert waiter.completed == [(3.0, False)]
    assert not other.completed


def test_time_runs_out_in_its_order() -> None:
    purgatory = Purgatory()
    waiters = [Waiter() for _ in range(3)]
    for waiter, deadline in zip(waiters, (5.0, 3.0, 4.0), strict=True):
        purgatory.watch(waiter, ["a"], 1.0, deadline)
    assert purgatory.next_deadline() == 3.0
    purgatory.settle(4.5)
    assert [bool(waiter.completed) for waiter in waiters] == [False, True, True]
    assert purgatory.next_deadline() == 5.0
    purgatory.settle(5.0)
    assert purgatory.next_deadline() is None


def test_a_deadline_that_is_past_completes_at_once() -> None:
    waiter = Waiter()
    Purgatory().watch(waiter, (), 2.0, 2.0)
    assert waiter.completed == [(2.0, True)]


def test_nobody_is_completed_twice_however_many_threads_look() -> None:
    purgatory = Purgatory()
    waiters = [Waiter() for _ in range(300)]
    for number, waiter in enumerate(waiters):
        purgatory.watch(waiter, [number % 7, number % 5], 0.0, 1.0 + number % 3)

    def work(seed: int) -> None:
        random = Random(seed)
        for _ in range(300):
            random.choice(waiters).due = True
            purgatory.touch(random.randrange(7))
            purgatory.settle(random.uniform(0, 2))

    threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    purgatory.settle(9.0)
    assert [len(waiter.completed) for waiter in waiters] == [1] * len(waiters)
    assert len(purgatory) == 0
