"""Limits of a server for its clients: connections, bytes of requests, time.

Each limit holds whatever a client claims or does. A client beyond it is disconnected, or waits; no
other client does.

Not here: who has a place where all are taken (places.py), where limits are checked (server.py,
network_thread.py, connection.py)."""

from dataclasses import dataclass
from threading import Lock
from typing import Final

from records.units import KiB, MiB

# Bytes of a request that are not counted: nearly all requests are smaller, and the number of
# connections bounds the sum.
FREE_SIZE: Final = 4 * KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one server. Sizes in bytes, times in seconds.

    connections, connections_per_address: at a time; further ones are closed as they come, or one
        that has not logged in yet is.
    request_size: of one request [socket.request.max.bytes].
    requests_memory: of all requests that are being received or worked on
        [queued.max.request.bytes].
    idle: without a byte either way, and no answer that is waited for [connections.max.idle.ms].
    request: from a request's first byte to its last; also for a TLS handshake, and for
        authentication.
    stop: for what is under way when the server is stopped."""

    connections: int = 20_000
    connections_per_address: int = 20_000
    request_size: int = 100 * MiB
    requests_memory: int = 256 * MiB
    idle: float = 600.0
    request: float = 30.0
    stop: float = 3.0


class RequestMemory:
    """The bytes of all requests under way. Thread-safe.

    When all is taken, one request may still grow, so that those which are half received cannot
    keep each other waiting for ever."""

    def __init__(self, size: int) -> None:
        self._lock = Lock()
        self._free = size
        self._favoured: object = None

    def take(self, owner: object, size: int) -> bool:
        """Takes so many bytes for this owner; False: there are not as many now."""
        with self._lock:
            if size > self._free:
                if self._favoured not in (None, owner):
                    return False
                self._favoured = owner
            self._free -= size
            return True

    def release(self, owner: object, size: int) -> None:
        """Returns all that the owner has taken."""
        with self._lock:
            self._free += size
            if self._favoured is owner:
                self._favoured = None
