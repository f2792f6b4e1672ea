"""The responses that wait until their clients read them, limited in their sum.

A small request may have a large response, as Metadata of all topics has. A client may send it on
many connections and read none of the responses. If they are too large together, the connection
whose client has read nothing for the longest time is closed. So requests never wait for clients
that do not read.

Not here: records, which are read when they are sent (conversion/send.py)."""

from collections.abc import Callable
from threading import Lock
from typing import Final

from .limits import FREE_SIZE

UNREAD: Final = "it reads its response too slowly, and others need the memory"


class UnreadResponses:
    """The responses of one server that wait for their clients. Thread-safe. size: bytes of all."""

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self.free = size
        # By owner, the longest wait first: bytes, and the function that closes the connection.
        self._held: dict[object, tuple[int, Callable[[], object]]] = {}

    def hold(self, owner: object, size: int, close: Callable[[], object]) -> None:
        """The owner's response begins to wait, perhaps again after its client has read a part.

        `size`: bytes that the response holds. `close`: ends the owner's connection; may be called
        by any thread that holds a response."""
        if size <= FREE_SIZE:  # the number of connections bounds the sum
            return
        late = []
        with self._lock:
            self._release(owner)
            self._held[owner] = size, close
            self.free -= size
            while self.free < 0 and len(self._held) > 1:
                first = next(iter(self._held))
                late.append(self._held[first][1])
                self._release(first)
        for end in late:
            end()

    def release(self, owner: object) -> None:
        """The owner's response is sent, or its connection has ended."""
        if owner in self._held:  # usually its client has read it at once
            with self._lock:
                self._release(owner)

    def _release(self, owner: object) -> None:
        self.free += self._held.pop(owner, (0, None))[0]
