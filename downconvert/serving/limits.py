"""Limits of a server for its clients: connections, bytes of requests, time.

Each limit holds for any client. A client beyond a limit waits or is disconnected. Other clients are
not affected.

Not here: which client keeps its place if all are taken (places.py), where limits are checked
(server.py, processor.py, connection.py)."""

from dataclasses import dataclass
from threading import Lock
from typing import Final

from records.units import KiB, MiB

# Bytes that an element of a request's arrays takes in memory, with what its handler makes of it.
# Partitions of a fetch take a little more, configurations a little less.
ELEMENT_SIZE: Final = 512
# Clients that have not logged in have this part of the memory of requests, for all of them.
LOGIN_PART: Final = 16
# Bytes of a request that are not counted. Nearly all requests are smaller, and the number of
# connections bounds the sum.
FREE_SIZE: Final = 4 * KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one server. Sizes in bytes, times in seconds.

    connections, connections_per_address: open at a time. At the limit, a connection that
        has not logged in yet is closed, or else the new one.
    request_size: of one request [socket.request.max.bytes].
    requests_memory: of all requests being received or processed, with what their elements take
        [queued.max.request.bytes]. As much again for responses that wait for their clients.
    idle: without a byte in either direction and without a request under way
        [connections.max.idle.ms].
    request: from a request's first byte to its last. Also the limit of a TLS handshake, and
        of authentication.
    stop: for requests under way when the server is stopped."""

    connections: int = 20_000
    connections_per_address: int = 20_000
    request_size: int = 100 * MiB
    requests_memory: int = 256 * MiB
    idle: float = 600.0
    request: float = 30.0
    stop: float = 3.0


class RequestMemory:
    """The bytes of all requests under way. Thread-safe.

    free: bytes that are left; negative while one request grows beyond the limit.

    When all memory is taken, one request may still grow. So incomplete requests cannot block each
    other for ever."""

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self.free = size
        self._favoured: object = None

    def take(self, owner: object, size: int) -> bool:
        """Takes `size` bytes for this owner. Returns False if too few are left now."""
        with self._lock:
            if size > self.free:
                if self._favoured not in (None, owner):
                    return False
                self._favoured = owner
            self.free -= size
            return True

    def charge(self, owner: object, size: int) -> None:
        """Counts bytes that this owner has already taken, even if there are too few."""
        with self._lock:
            self.free -= size
            if self.free < 0 and self._favoured is None:
                self._favoured = owner

    def release(self, owner: object, size: int) -> None:
        """Gives back all bytes that the owner has taken."""
        with self._lock:
            self.free += size
            if self._favoured is owner:
                self._favoured = None
