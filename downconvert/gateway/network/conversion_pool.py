"""Threads that convert, so that the event loop never does.

A turn (exchanges.py) is short. If another job waits for a thread, an unfinished conversion queues
again after its turn. So a client waits for at most one turn of each other converting client. If no
job waits, the conversion goes on at once. If there is no room for a conversion's buffers between
two turns (turns.py), it runs to its end in one long turn. The native calls of a conversion run
without the interpreter's lock.

A job runs on one thread at a time: its connection awaits one turn before it asks for the next."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import thread_time
from typing import Final, TypeVar

THREADS_MAX: Final = 4
TURNS_MAX: Final = 16  # in succession: a gateway that stops waits for them
NAME: Final = "conversion"  # prefix of its threads' names
Result = TypeVar("Result")


class ConversionPool:
    """A few threads, started when there is work."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(os.cpu_count() or 1, THREADS_MAX)
        self._executor = ThreadPoolExecutor(self.threads, NAME)
        self._waiting = deque[None]()  # one entry for each job that no thread has begun

    def goes_on(self, turns: int) -> bool:
        """Whether a job may have its next turn at once. `turns`: those that it has had."""
        return turns < TURNS_MAX and not self._waiting

    async def run(self, turn: Callable[[], Result]) -> Result:
        """Runs a turn. Returns its result, or raises its error. It must not raise StopIteration,
        which no future can hold.

        A turn that has begun is awaited even if its connection is cancelled. So nothing that it
        uses is closed before it has ended."""
        self._waiting.append(None)
        job = self._executor.submit(self._begin, turn)
        ended = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if job.cancel():
                self._waiting.pop()
            else:
                await asyncio.wait([ended])
                ended.exception()  # marks the error as retrieved: nobody else will read it
            raise

    def _begin(self, turn: Callable[[], Result]) -> Result:
        self._waiting.pop()
        return turn()

    def close(self) -> None:
        """Ends the threads. Turns that have not started are dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)


class TimedPool:
    """The pool as one connection uses it: adds up the processor time of the connection's turns."""

    __slots__ = ("_pool", "_seconds")

    def __init__(self, pool: ConversionPool) -> None:
        self._pool = pool
        self._seconds = 0.0

    def goes_on(self, turns: int) -> bool:
        """As the pool's."""
        return self._pool.goes_on(turns)

    async def run(self, turn: Callable[[], Result]) -> Result:
        """As the pool's."""
        return await self._pool.run(partial(self.here, turn))

    def here(self, turn: Callable[[], Result]) -> Result:
        """Runs a turn on the calling thread."""
        began = thread_time()
        try:
            return turn()
        finally:
            self._seconds += thread_time() - began

    def spent(self) -> float:
        """The seconds of turns since the last call. Turns of one connection follow each other."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds
