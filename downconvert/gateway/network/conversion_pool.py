"""Threads that convert, so that the event loop never does.

A turn (exchanges.py) is short. After its turn, an unfinished job queues again if other jobs wait
for a thread, and else continues at once. So a client waits for at most one turn of each other
converting client. A conversion that may not keep its buffers between two turns (turns.py) runs to
its end in one long turn. The native calls of a conversion run without the interpreter's lock.

A job runs on one thread at a time. Only its end is reported to the event loop."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import thread_time
from typing import Any, Final, TypeVar

from records.logged import with_log_fields

THREADS_MAX: Final = 4
TURNS_MAX: Final = 16  # in succession, because stopping the gateway waits for them
NAME: Final = "conversion"  # prefix of its threads' names
AGAIN: Final = object()  # the result of a job that has not ended
Result = TypeVar("Result")


class _Job:
    """`ended`: set in the event loop when the job ends; None afterwards. `is_cancelled`: no further
    turn is needed."""

    __slots__ = ("ended", "has_begun", "is_cancelled", "loop", "turn")

    def __init__(self, turn: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.turn = turn
        self.loop = loop
        self.ended: asyncio.Future[Any] | None = loop.create_future()
        self.has_begun = self.is_cancelled = False

    def run(self) -> bool:
        """Runs a turn. Returns whether another one follows."""
        self.has_begun = True
        result, error = None, None
        try:
            if not self.is_cancelled:
                result = self.turn()
        except BaseException as raised:  # the event loop's task raises it
            error = raised
        if result is AGAIN:
            return True
        with suppress(RuntimeError):  # the loop is closed, and no task waits for the job
            self.loop.call_soon_threadsafe(self._end, result, error)
        del error  # breaks a reference cycle through this frame
        return False

    def _end(self, result: Any, error: BaseException | None) -> None:
        ended, self.ended = self.ended, None
        if ended is None or ended.cancelled():
            return
        if error is None:
            ended.set_result(result)
        else:
            ended.set_exception(error)


class ConversionPool:
    """A few threads, started when there is work."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(os.cpu_count() or 1, THREADS_MAX)
        self._jobs = SimpleQueue[_Job | None]()
        self._started: list[Thread] = []

    def may_continue(self, turns: int) -> bool:
        """Whether a job may have its next turn at once. `turns`: how many turns it has had in
        succession."""
        return turns < TURNS_MAX and self._jobs.empty()

    async def run(self, turn: Callable[[], Result]) -> Result:
        """Runs turns until one returns a result other than AGAIN. Returns that result, or raises
        the turn's error. A turn must not raise StopIteration, which no future can hold.

        A turn that has begun is awaited even if its connection is cancelled. So everything that it
        uses stays open until its end."""
        if len(self._started) < self.threads:
            self._start_thread()
        job = _Job(turn, asyncio.get_running_loop())
        assert job.ended is not None
        self._jobs.put(job)
        try:
            result: Result = await job.ended
        except asyncio.CancelledError:
            job.is_cancelled = True
            if job.has_begun and job.ended is not None:
                job.ended = ended = job.loop.create_future()  # the first future is cancelled
                await asyncio.wait([ended])
                ended.exception()  # marks the error as retrieved
            raise
        return result

    def _start_thread(self) -> None:
        name = f"{NAME}_{len(self._started)}"
        thread = Thread(target=with_log_fields(self._work), name=name, daemon=True)
        thread.start()
        self._started.append(thread)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.run():
                self._jobs.put(job)
            del job  # or it would stay in memory until the next job comes

    def close(self) -> None:
        """Ends the threads after all waiting jobs."""
        for _ in self._started:
            self._jobs.put(None)
        for thread in self._started:
            thread.join()


class TimedPool:
    """The pool as one connection uses it: adds up the processor time of the connection's turns."""

    __slots__ = ("_pool", "_seconds")

    def __init__(self, pool: ConversionPool) -> None:
        self._pool = pool
        self._seconds = 0.0

    def may_continue(self, turns: int) -> bool:
        """As `ConversionPool.may_continue`."""
        return self._pool.may_continue(turns)

    async def run(self, turn: Callable[[], Result]) -> Result:
        """As `ConversionPool.run`."""
        return await self._pool.run(partial(self.here, turn))

    def here(self, turn: Callable[[], Result]) -> Result:
        """Runs a turn on the calling thread."""
        began = thread_time()
        try:
            return turn()
        finally:
            self._seconds += thread_time() - began

    def spent(self) -> float:
        """The seconds of turns since the last call. A connection's turns never overlap."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds
