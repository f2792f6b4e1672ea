"""Threads together take no more bytes than the budget has."""

from concurrent.futures import ThreadPoolExecutor

from records.budget import MemoryBudget


def test_all_bytes_and_no_more_can_be_taken() -> None:
    budget = MemoryBudget(10)
    assert budget.take(7)
    assert not budget.take(4)
    assert budget.take(3)
    assert (budget.left, budget.held, budget.size) == (0, 10, 10)
    budget.release(7)
    assert (budget.left, budget.held) == (7, 3)
    assert budget.take(0)


def test_threads_together_take_no_more_than_there_is() -> None:
    budget = MemoryBudget(1000)

    def taken(_: int) -> int:
        return sum(budget.take(1) for _ in range(500))

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(taken, range(4))) == 1000
    assert budget.left == 0
