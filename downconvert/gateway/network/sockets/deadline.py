"""Time-outs of waits.

One timer serves many waits. It is set again only when it fires too early, not for each wait: most
connections wait thousands of times before one wait takes too long."""

import asyncio
from contextlib import suppress


def wake(waiter: "asyncio.Future[None] | None") -> None:
    """Ends a wait, if there is one."""
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


async def pause(seconds: float, waiter: "asyncio.Future[None]") -> bool:
    """Waits for so long. Returns whether `wake` has ended the wait before."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiter
        return True
    return False


class Deadline:
    """The time-out of one task, which waits for one thing at a time.

    `limit`: of the wait, by the loop's clock."""

    __slots__ = ("_is_over", "_timer", "_timer_at", "_waiter", "limit")

    def __init__(self) -> None:
        self.limit = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._is_over = False  # whether the current wait has reached its limit

    async def wait(self, waiter: "asyncio.Future[None]", limit: float | None) -> None:
        """Waits for the future. TimeoutError: it is not done by the limit."""
        self._is_over = False
        if limit is not None:
            self._waiter = waiter
            self.move(limit)
        try:
            await waiter
        finally:
            self._waiter = None
        if self._is_over:  # a future with the error would refer to this frame, and it to the future
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
