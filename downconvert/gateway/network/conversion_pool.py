"""Threads that convert, so that the event loop never does.

A turn (exchanges.py) is short. Where anybody waits for a thread, a conversion that has more to do
queues again after it, so that no client waits for more than one turn of each other client that
converts; where nobody does, it goes on. Not short are the turns of conversions whose buffers there
is no room for between two turns (turns.py): they come to their end in one. The native calls of a
conversion run without the interpreter's lock.

A job is for one thread at a time: its connection waits for one turn before it asks for the next."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

THREADS_MAX: Final = 4
TURNS_MAX: Final = 16  # one after the other: a gateway that ends waits for them
NAME: Final = "conversion"  # what the names of its threads begin with
Result = TypeVar("Result")


class ConversionPool:
    """A few threads, started when there is work."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(os.cpu_count() or 1, THREADS_MAX)
        self._executor = ThreadPoolExecutor(self.threads, NAME)
        self._waiting = deque[None]()  # as long as there are jobs that no thread has begun

    def goes_on(self, turns: int) -> bool:
        """Whether a job that has had so many turns may have the next one at once."""
        return turns < TURNS_MAX and not self._waiting

    async def run(self, turn: Callable[[], Result]) -> Result:
        """What a turn returns or raises, but StopIteration, which no future can hold.

        A turn that has begun is waited for also where its connection is cancelled: what it uses is
        not closed before it has ended."""
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
                ended.exception()  # nobody wants it any more
            raise

    def _begin(self, turn: Callable[[], Result]) -> Result:
        self._waiting.pop()
        return turn()

    def close(self) -> None:
        """Ends the threads. Turns that have not started are dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)
