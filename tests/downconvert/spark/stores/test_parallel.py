"""Requests to a store are made many at a time. Their responses keep the order of the questions."""

import threading
import time

import pytest

from downconvert.spark.stores.parallel import THREADS, in_parallel


def test_as_many_calls_as_threads_run_at_a_time() -> None:
    together = threading.Barrier(THREADS, timeout=30)
    in_parallel(lambda _: together.wait(), range(2 * THREADS))
    assert not together.broken


def test_results_are_in_order_though_calls_end_in_another() -> None:
    def slow_first(number: int) -> int:
        time.sleep(0.01 * (number == 0))
        return 10 * number

    assert in_parallel(slow_first, range(40)) == [10 * number for number in range(40)]


def test_mounted_files_are_read_one_after_the_other_in_the_same_thread() -> None:
    found = in_parallel(lambda _: threading.current_thread(), range(3), is_mounted=True)
    assert found == [threading.current_thread()] * 3


def test_one_call_needs_no_other_thread() -> None:
    found = in_parallel(lambda _: threading.current_thread(), range(1))
    assert found == [threading.current_thread()]


@pytest.mark.parametrize("is_mounted", [False, True])
def test_the_error_of_the_first_failed_call_is_raised(is_mounted: bool) -> None:
    def failing(number: int) -> None:
        if number in (3, 5):
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        in_parallel(failing, range(8), is_mounted=is_mounted)
