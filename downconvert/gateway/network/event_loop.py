"""The event loop of a gateway, which can say that nobody else has anything to do for it.

Whoever is in the midst of a transfer may then wait where it is, for a moment: a turn of the loop
for each of its pieces costs more than what it does in that turn."""

import asyncio
import select
import selectors
from collections import deque
from typing import Final

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT


class EventLoop(asyncio.SelectorEventLoop):
    """An event loop of asyncio's that a callback can ask whether it may wait."""

    _ready: deque[asyncio.Handle]  # asyncio's: callbacks whose turn has come

    def __init__(self) -> None:
        self._watching = selectors.DefaultSelector()
        super().__init__(self._watching)

    def wait_here(self, file: int, event: int, milliseconds: int) -> bool:
        """Waits in a callback until a file is ready. False: it is not in so long, or somebody else
        has to be served first: it ends as soon as there is anything to do for the loop.

        Timers are late by as much."""
        if self._ready:
            return False
        poll = select.poll()
        poll.register(file, event)
        poll.register(self._watching, select.POLLIN)  # as soon as any file that it watches is
        ready = poll.poll(milliseconds)
        return len(ready) == 1 and ready[0][0] == file
