"""The event loop of a gateway, which can say that nobody else has anything to do for it.

Whoever is in the midst of a transfer may then wait where it is, for a moment: a turn of the loop
for each of its pieces costs more than what it does in that turn."""

import asyncio
import os
import select
import selectors
from collections import deque
from typing import Final

READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT
WAIT_MS: Final = 1  # milliseconds for which a callback may wait for more of a transfer


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
        poll.register(
            self._watching, select.POLLIN
        )  # readable if any file that is watched is ready
        ready = {one for one, _ in poll.poll(milliseconds)}
        if len(ready) > 1:  # the file may be one that it watches
            return all(key.fd == file for key, _ in self._watching.select(0))
        return file in ready


def read_on(file: int, buffer: memoryview) -> int:
    """Reads what comes next from a plain socket into the buffer of a callback, which waits for it
    while nobody else has anything to do. Returns bytes; 0: none, or the other side has ended, which
    is left to the transport."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, EventLoop) or not loop.wait_here(file, READABLE, WAIT_MS):
        return 0
    try:
        return os.readv(file, [buffer])
    except OSError:
        return 0
