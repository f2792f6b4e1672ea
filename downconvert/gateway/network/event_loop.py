"""The event loop of a gateway. A callback may block briefly in it while the loop is idle.

A transfer in progress may then wait for its next piece without returning to the loop. One turn of
the loop for each piece would cost more than moving the piece."""

import asyncio
import select
import selectors
from collections import deque
from typing import Final

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, in which a callback may wait briefly."""

    _ready: deque[asyncio.Handle]  # asyncio's: callbacks whose turn has come

    def __init__(self) -> None:
        self._watching = selectors.DefaultSelector()
        super().__init__(self._watching)

    def wait_here(self, file: int, event: int, milliseconds: int) -> bool:
        """Waits in a callback until a file is ready. False: it is not ready in time, or the loop
        has other work. The wait ends as soon as the loop has any.

        Timers may be late by the length of the wait."""
        if self._ready:
            return False
        poll = select.poll()
        poll.register(file, event)
        poll.register(self._watching, select.POLLIN)  # ready as soon as any of its files is
        ready = poll.poll(milliseconds)
        return len(ready) == 1 and ready[0][0] == file
