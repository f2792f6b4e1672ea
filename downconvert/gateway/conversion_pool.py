"""Threads that convert, so that the event loop never does.

A turn (exchanges.py) is short. A conversion that has more to do queues again after it, so that no
client waits for more than one turn of each other client that converts. The native calls of a
conversion run without the interpreter's lock.

A job is for one thread at a time: its connection waits for one turn before it asks for the next."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

THREADS_MAX: Final = 4
NAME: Final = "conversion"  # what the names of its threads begin with
Result = TypeVar("Result")


class ConversionPool:
    """A few threads, started when there is work."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(os.cpu_count() or 1, THREADS_MAX)
        self._executor = ThreadPoolExecutor(self.threads, NAME)

    async def run(self, turn: Callable[[], Result]) -> Result:
        """What a turn returns or raises, but StopIteration, which no future can hold.

        A turn that has begun is waited for also where its connection is cancelled: what it uses is
        not closed before it has ended."""
        job = self._executor.submit(turn)
        ended = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not job.cancel():
                await asyncio.wait([ended])
            if not ended.cancelled():
                ended.exception()  # nobody wants it any more
            raise

    def close(self) -> None:
        """Ends the threads. Turns that have not started are dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)
