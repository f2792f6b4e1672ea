"""Pauses that end with their time or when they are woken, and timers that are moved."""

import asyncio

import pytest

from downconvert.gateway.network.sockets.deadline import Deadline, pause, wake
from tests.downconvert.gateway.network.sockets.test_deadline import Clock, with_clock


def test_a_pause_says_whether_it_was_woken() -> None:
    async def use(clock: Clock, _: Deadline) -> None:
        assert not await pause(5.0, clock.create_future())
        assert clock.now == 5.0
        waiter = clock.create_future()
        clock.call_later(2.0, wake, waiter)
        assert await pause(5.0, waiter)
        assert clock.now == 7.0
        woken = clock.create_future()
        wake(woken)
        assert await pause(5.0, woken)
        assert clock.now == 7.0

    with_clock(use)


def test_a_wait_is_woken_at_most_once() -> None:
    async def use(clock: Clock, _: Deadline) -> None:
        waiter = clock.create_future()
        for one in (None, waiter, waiter):
            wake(one)
        assert waiter.done()
        cancelled = clock.create_future()
        cancelled.cancel()
        wake(cancelled)

    with_clock(use)


@pytest.mark.parametrize(("first", "then"), [(30.0, 50.0), (50.0, 30.0)])
def test_a_time_limit_can_be_moved_during_a_wait(first: float, then: float) -> None:
    """If the deadline becomes later, the timer fires once too early. If it becomes earlier, the
    timer is replaced."""

    async def use(clock: Clock, deadline: Deadline) -> None:
        clock.call_later(10.0, deadline.move, then)
        with pytest.raises(TimeoutError):
            await deadline.wait(clock.create_future(), first)
        assert clock.now == then
        await asyncio.sleep(100.0)
        assert clock.timers == 4  # of this test two: to move, and to sleep

    with_clock(use)


def test_a_timer_of_a_wait_that_is_over_ends_no_other() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        first = clock.create_future()
        clock.call_later(20.0, wake, first)
        await deadline.wait(first, 30.0)
        second = clock.create_future()
        clock.call_later(80.0, wake, second)
        await deadline.wait(second, None)
        assert clock.now == 100.0
        with pytest.raises(TimeoutError):
            await deadline.wait(clock.create_future(), 130.0)
        assert clock.now == 130.0

    with_clock(use)


def test_a_wait_that_ends_with_its_timer_is_over() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        waiter = clock.create_future()
        waiting = clock.create_task(deadline.wait(waiter, 30.0))
        clock.call_at(30.0, wake, waiter)
        await waiting
        assert clock.now <= 30.0

    with_clock(use)


def test_closing_leaves_a_wait_without_a_limit() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        waiter = clock.create_future()
        clock.call_later(5.0, deadline.close)
        clock.call_later(500.0, wake, waiter)
        await deadline.wait(waiter, 30.0)
        assert clock.now == 500.0
        deadline.close()
        with pytest.raises(TimeoutError):
            await deadline.wait(clock.create_future(), 600.0)
        assert clock.now == 600.0

    with_clock(use)
