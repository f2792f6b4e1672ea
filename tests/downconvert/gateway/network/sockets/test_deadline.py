"""Waits that take too long, and the timers that are set for them. In simulated time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from downconvert.gateway.network.sockets.deadline import Deadline, Parked, wake

WAITS = 1000


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time goes on only while it would sleep, and which counts timers."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.timers = 0.0, 0
        select = self._selector.select  # type: ignore[attr-defined]

        def skip(timeout: float | None = None) -> Any:
            self.now += timeout or 0.0
            return select(0)

        self._selector.select = skip  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.timers += 1
        return super().call_at(when, callback, *args, **options)


Use = Callable[[Clock, Deadline], Coroutine[Any, Any, None]]


def with_clock(use: Use) -> Clock:
    clock = Clock()
    with asyncio.Runner(loop_factory=lambda: clock) as runner:
        runner.run(use(clock, Deadline()))
    return clock


def test_a_wait_ends_when_its_time_is_over() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        for seconds in (30.0, 60.0, 7.0):
            began = clock.now
            with pytest.raises(TimeoutError):
                await deadline.wait(clock.create_future(), began + seconds)
            assert clock.now == began + seconds

    with_clock(use)


def test_a_wait_without_a_limit_does_not_time_out() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        waiter = clock.create_future()
        clock.call_later(1e6, waiter.set_result, None)
        await deadline.wait(waiter, None)

    assert with_clock(use).now == 1e6


def test_a_later_wait_has_its_own_limit() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        first = clock.create_future()
        clock.call_later(20.0, first.set_result, None)
        await deadline.wait(first, 30.0)
        with pytest.raises(TimeoutError):
            await deadline.wait(clock.create_future(), 50.0)  # the timer is one for 30
        assert clock.now == 50.0
        second = clock.create_future()
        clock.call_later(5.0, second.set_result, None)
        await deadline.wait(second, 100.0)
        with pytest.raises(TimeoutError):
            await deadline.wait(clock.create_future(), 60.0)  # the timer is one for 100
        assert clock.now == 60.0

    with_clock(use)


def test_many_waits_need_few_timers() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        for _ in range(WAITS):
            waiter = clock.create_future()
            clock.call_soon(waiter.set_result, None)
            await deadline.wait(waiter, clock.now + 600.0)
        deadline.close()

    assert with_clock(use).timers == 1


def test_no_timer_is_left_when_it_is_closed() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        waiter = clock.create_future()
        waiter.set_result(None)
        await deadline.wait(waiter, 600.0)
        deadline.close()
        await asyncio.sleep(1.0)

    assert with_clock(use).now == 1.0


def test_a_wait_without_a_task_calls_back_once_and_says_whether_time_is_up() -> None:
    async def use(clock: Clock, deadline: Deadline) -> None:
        for is_late in (False, True, False):
            calls: list[str] = []
            parked = Parked(lambda calls=calls: calls.append("resumed"))
            deadline.begin(parked, clock.now + 60.0)
            await asyncio.sleep(61.0 if is_late else 59.0)
            assert calls == ["resumed"] * is_late
            wake(parked)
            wake(parked)
            assert calls == ["resumed"]
            if is_late:
                with pytest.raises(TimeoutError):
                    deadline.end()
            deadline.end()  # nothing is left of it

    with_clock(use)
