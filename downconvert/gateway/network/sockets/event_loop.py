"""The event loop of a gateway. It calls the callback of a plain socket directly.

For each event, asyncio would make a handle and take a turn of its loop. That costs as much as
handling a small request, or moving a piece of a large response."""

import asyncio
import select
import selectors
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from .socket_transport import READABLE, WRITABLE

HAS_EPOLL: Final = hasattr(select, "epoll")
FOREVER: Final = -1.0  # a timeout of epoll


class _Work:
    """`is_left`: whether the callbacks of watched files have left work for asyncio's loop."""

    __slots__ = ("is_left",)

    def __init__(self) -> None:
        self.is_left = False


class _Selector(selectors.DefaultSelector):
    """asyncio's selector, which also calls the callbacks of watched files.

    `select` returns only if a file of asyncio is ready, there is work for asyncio, or time is
    up."""

    def __init__(self, work: _Work) -> None:
        super().__init__()
        self._work = work
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
        work = self._work
        work.is_left = False  # the timeout accounts for earlier work
        while True:
            ready = self.epoll.poll(FOREVER if timeout is None else max(timeout, 0.0))
            for file, events in ready:
                callback = callbacks.get(file)
                if callback is not None:
                    callback(events)
                else:  # a file of asyncio, or one that is no longer watched
                    others += super().select(0)
            if others or not ready or work.is_left:
                return others
            if until is not None and (timeout := until - monotonic()) <= 0:
                return others


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, with watched files."""

    def __init__(self) -> None:
        self._work = _Work()
        self._selecting = _Selector(self._work) if HAS_EPOLL else None
        super().__init__(self._selecting)

    time = staticmethod(monotonic)

    def call_at(self, when: float, callback: Any, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        self._work.is_left = True  # the new timer may be the earliest
        return super().call_at(when, callback, *args, **options)

    def call_soon(self, callback: Any, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        self._work.is_left = True
        return super().call_soon(callback, *args, **options)

    def watch(self, file: int, callback: Callable[[int], None], events: int) -> None:
        """Calls back whenever the file is ready for one of these events, or has an error. The
        callback must not raise."""
        if self._selecting is not None:
            self._selecting.watch(file, callback, events)
            return
        self.unwatch(file)
        if events & READABLE:
            self.add_reader(file, callback, READABLE)
        if events & WRITABLE:
            self.add_writer(file, callback, WRITABLE)

    def unwatch(self, file: int) -> None:
        """Stops the calls."""
        if self._selecting is not None:
            self._selecting.unwatch(file)
            return
        self.remove_reader(file)
        self.remove_writer(file)
