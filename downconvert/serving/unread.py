"""The responses that wait until their clients read them, limited in their sum.

A small request may have a large response, as Metadata of all topics has. A client may send it on
many connections and read none of the responses. If they are too large together, a connection is
closed: at the address whose responses take the most, the one whose client has read nothing for the
longest time. So requests never wait for clients that do not read, and a client that reads slowly
loses its connection to its own address only.

Not here: records, which are read when they are sent (conversion/send.py)."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from .limits import FREE_SIZE
from .places import Place

UNREAD: Final = "it reads its response too slowly, and others need the memory"


class UnreadResponses:
    """The responses of one server that wait for their clients, each named by the place of its
    connection. Thread-safe. size: bytes of all."""

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self.free = size
        self._sizes = Counter[str]()  # bytes by address
        # By address and place, the longest wait first: bytes, and the function that closes the
        # connection.
        self._held: dict[str, dict[Place, tuple[int, Callable[[], object]]]] = {}

    def hold(self, place: Place, size: int, close: Callable[[], object]) -> None:
        """The response of the place's connection begins to wait, perhaps again after its client has
        read a part.

        `size`: bytes that the response holds. `close`: ends the connection; may be called by any
        thread that holds a response."""
        if size <= FREE_SIZE:  # the number of connections bounds the sum
            return
        late = []
        with self._lock:
            self._release(place)
            self._held.setdefault(place.address, {})[place] = size, close
            self._sizes[place.address] += size
            self.free -= size
            while self.free < 0 and self._is_shared:
                most = max(self._sizes, key=self._sizes.__getitem__)
                first = next(iter(self._held[most]))
                late.append(self._held[most][first][1])
                self._release(first)
        for end in late:
            end()

    @contextmanager
    def held(self, place: Place, size: int, close: Callable[[], object]) -> Iterator[None]:
        """The response waits within this context. As `hold`, then `release`."""
        self.hold(place, size, close)
        try:
            yield
        finally:
            self.release(place)

    def release(self, place: Place) -> None:
        """The client reads again, the response is sent, or the connection has ended."""
        if place in self._held.get(place.address, ()):  # usually its client has read it at once
            with self._lock:
                self._release(place)

    @property
    def _is_shared(self) -> bool:
        """Whether there is more than one response."""
        return len(self._held) > 1 or any(len(one) > 1 for one in self._held.values())

    def _release(self, place: Place) -> None:
        address = place.address
        held = self._held.get(address, {})
        if place not in held:
            return
        size, _ = held.pop(place)
        self.free += size
        self._sizes[address] -= size
        if not held:
            del self._held[address], self._sizes[address]
