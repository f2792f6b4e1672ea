"""The selector of a network thread. With epoll, it waits in a third of the time of the standard
library's selector, which calls several functions for each wait and each event."""

import select
from collections.abc import Mapping
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, DefaultSelector, SelectorKey
from typing import Any, Final

HAS_EPOLL: Final = hasattr(select, "epoll")
FOREVER: Final = -1.0  # a timeout of epoll


class EpollSelector(BaseSelector):
    """As `selectors.EpollSelector`. Only one thread may use it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._keys: dict[int, SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """KeyError: the file is registered already."""
        file = fileobj.fileno()
        if file in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        self._epoll.register(file, _mask(events))
        key = self._keys[file] = SelectorKey(fileobj, file, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        """KeyError: the file is not registered, or has been closed."""
        key = self._keys.pop(fileobj.fileno())
        self._epoll.unregister(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """KeyError: the file is not registered."""
        file = fileobj.fileno()
        key = self._keys[file]
        if events != key.events:
            self._epoll.modify(file, _mask(events))
        key = self._keys[file] = SelectorKey(fileobj, file, events, data)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """The ready files. An error of a file makes it ready for all events. `timeout`: in seconds,
        rounded up to milliseconds. None: no limit."""
        keys, found = self._keys, list[tuple[SelectorKey, int]]()
        for file, bits in self._epoll.poll(FOREVER if timeout is None else max(timeout, 0.0)):
            key = keys[file]
            if bits == select.EPOLLIN:
                found.append((key, EVENT_READ))
                continue
            events = EVENT_WRITE if bits & ~select.EPOLLIN else 0
            events |= EVENT_READ if bits & ~select.EPOLLOUT else 0
            found.append((key, events & key.events))
        return found

    def get_map(self) -> Mapping[Any, SelectorKey]:
        """The registered files, by number."""
        return self._keys

    def close(self) -> None:
        self._epoll.close()
        self._keys.clear()


def _mask(events: int) -> int:
    bits = select.EPOLLIN if events & EVENT_READ else 0
    return bits | (select.EPOLLOUT if events & EVENT_WRITE else 0)


def new_selector() -> BaseSelector:
    """The fastest selector of this system."""
    return EpollSelector() if HAS_EPOLL else DefaultSelector()
