"""The event loop of a gateway. It calls who watches a plain socket without a handle for each event.

A callback may block briefly in it while the loop is idle. A transfer in progress may then wait for
its next piece without returning to the loop. One turn of the loop for each piece would cost more
than moving the piece."""

import asyncio
import select
import selectors
import socket
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from .socket_transport import SocketTransport

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT


class _Selector(selectors.DefaultSelector):
    """Calls the callbacks of watched files. Returns the other ready files, which are asyncio's."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        others = []
        for key, events in super().select(timeout):
            if type(key.data) is tuple:  # asyncio's handles
                others.append((key, events))
            else:
                key.data(events)
        return others


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, with watched files, in which a callback may wait briefly."""

    _ready: deque[asyncio.Handle]  # asyncio's: callbacks whose turn has come

    def __init__(self) -> None:
        self._watching = _Selector()
        super().__init__(self._watching)

    time = staticmethod(monotonic)

    def watch(self, file: int, callback: Callable[[int], None], events: int) -> None:
        """Calls back, with the events of `selectors`, as long as the file is ready for one of
        them. The callback must not raise."""
        try:
            self._watching.register(file, events, callback)
        except KeyError:  # it is watched already
            self._watching.modify(file, events, callback)

    def unwatch(self, file: int) -> None:
        """Calls back no more."""
        self._watching.unregister(file)

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BufferedProtocol,
        waiter: "asyncio.Future[None] | None" = None,
        **_: Any,
    ) -> SocketTransport:
        """asyncio's hook for plain connections."""
        transport = SocketTransport(self, sock, protocol)
        if waiter is not None:
            waiter.set_result(None)
        return transport

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
