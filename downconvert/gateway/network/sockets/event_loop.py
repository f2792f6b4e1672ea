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

from .socket_transport import READABLE, WRITABLE, SocketTransport

HAS_EPOLL: Final = hasattr(select, "epoll")
FOREVER: Final = -1.0  # a timeout of epoll


class _Selector(selectors.DefaultSelector):
    """asyncio's selector, which also calls the callbacks of watched files.

    It does not return as long as only watched files are ready, because a turn of asyncio's loop
    costs as much as handling a small request. `has_work`: whether a callback has left work for
    asyncio's loop."""

    def __init__(self, has_work: Callable[[], bool]) -> None:
        super().__init__()
        self._has_work = has_work
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self.epoll = select.epoll()  # of the watched files, and of asyncio's selector
        self.epoll.register(self.fileno(), READABLE)

    def close(self) -> None:
        self.epoll.close()
        super().close()

    def watch(self, file: int, callback: Callable[[int], None], events: int) -> None:
        (self.epoll.modify if file in self._callbacks else self.epoll.register)(file, events)
        self._callbacks[file] = callback

    def unwatch(self, file: int) -> None:
        del self._callbacks[file]
        self.epoll.unregister(file)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        until = None if timeout is None else monotonic() + timeout
        callbacks, others = self._callbacks, list[tuple[selectors.SelectorKey, int]]()
        while True:
            ready = self.epoll.poll(FOREVER if timeout is None else max(timeout, 0.0))
            for file, events in ready:
                callback = callbacks.get(file)
                if callback is not None:
                    callback(events)
                else:  # one of asyncio's files, or one that is not watched any more
                    others += super().select(0)
            if others or not ready or self._has_work():
                return others
            if until is not None and (timeout := until - monotonic()) <= 0:
                return others


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, with watched files, in which a callback may wait briefly."""

    _ready: deque[asyncio.Handle]  # asyncio's: callbacks whose turn has come

    def __init__(self) -> None:
        self._has_new_timer = False
        self._selecting = _Selector(self._has_work) if HAS_EPOLL else None
        super().__init__(self._selecting)

    time = staticmethod(monotonic)

    def call_at(self, when: float, callback: Any, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        self._has_new_timer = True
        return super().call_at(when, callback, *args, **options)

    def _has_work(self) -> bool:
        """Whether callbacks have left any, or a timer that may be the first."""
        has_new_timer, self._has_new_timer = self._has_new_timer, False
        return bool(self._ready) or has_new_timer

    def watch(self, file: int, callback: Callable[[int], None], events: int) -> None:
        """Calls back whenever the file is ready for one of these events. Errors count as
        each of them. The callback must not raise."""
        if self._selecting is not None:
            self._selecting.watch(file, callback, events)
            return
        self.unwatch(file)
        if events & READABLE:
            self.add_reader(file, callback, READABLE)
        if events & WRITABLE:
            self.add_writer(file, callback, WRITABLE)

    def unwatch(self, file: int) -> None:
        """Calls back no more."""
        if self._selecting is not None:
            self._selecting.unwatch(file)
            return
        self.remove_reader(file)
        self.remove_writer(file)

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
        if self._ready or self._selecting is None:
            return False
        poll = select.poll()
        poll.register(file, event)
        poll.register(self._selecting.epoll, READABLE)  # ready as soon as any of its files is
        ready = poll.poll(milliseconds)
        return len(ready) == 1 and ready[0][0] == file
