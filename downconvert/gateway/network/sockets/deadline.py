"""Time-outs of waits.

One timer serves many waits. It is not set for each wait, but only when it fires too early, because
most connections wait thousands of times before one wait takes too long."""

import asyncio
from collections.abc import Callable
from contextlib import suppress


class Parked:
    """Replaces the future of a task, so that a waiting connection needs no task. `resume`: called
    once, when the wait ends, to make the task."""

    __slots__ = ("_resume",)

    def __init__(self, resume: Callable[[], None]) -> None:
        self._resume: Callable[[], None] | None = resume

    def done(self) -> bool:
        return self._resume is None

    def set_result(self, _: None) -> None:
        resume, self._resume = self._resume, None
        assert resume is not None
        resume()


def wake(waiter: "asyncio.Future[None] | Parked | None") -> None:
    """Ends a wait, if there is one."""
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


async def pause(seconds: float, waiter: "asyncio.Future[None]") -> bool:
    """Waits for so long. Returns whether `wake` has ended the wait early."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiter
        return True
    return False


class Deadline:
    """The time-out of one task. The task waits for one event at a time.

    `limit`: when the current wait times out, by the loop's clock."""

    __slots__ = ("_is_over", "_timer", "_timer_at", "_waiter", "limit")

    def __init__(self) -> None:
        self.limit = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._waiter: asyncio.Future[None] | Parked | None = None
        self._is_over = False  # whether the current wait has reached its limit

    async def wait(self, waiter: "asyncio.Future[None]", limit: float | None) -> None:
        """Waits for the future. TimeoutError: it is not done at the limit."""
        self.begin(waiter, limit)
        try:
            await waiter
        finally:
            self._waiter = None
        self.end()

    def begin(self, waiter: "asyncio.Future[None] | Parked", limit: float | None) -> None:
        """Begins a wait with this limit."""
        self._is_over = False
        if limit is not None:
            self._waiter = waiter
            self.move(limit)

    def end(self) -> None:
        """Ends the wait, if there is one. TimeoutError: it has reached its limit."""
        self._waiter, is_over, self._is_over = None, self._is_over, False
        if is_over:  # raised here: an error in the future would form a reference cycle
            raise TimeoutError

    def move(self, limit: float) -> None:
        """Moves the limit of the current wait."""
        self.limit = limit
        if self._timer is None or self._timer_at > limit:
            self._set(limit)

    def _set(self, at: float) -> None:
        self.close()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)
        self._timer_at = at

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self.limit <= self._timer_at:
            self._is_over = True
            self._waiter.set_result(None)
        else:
            self._set(self.limit)

    def close(self) -> None:
        """Cancels the timer. A current wait continues without a limit."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
