"""Limits of a server for its clients: connections, bytes of requests, time.

Each limit holds for any client. A client beyond a limit waits or is disconnected. Other clients are
not affected.

Not here: which client keeps its place if all are taken (places.py), which one waits for memory
(request_memory.py), where limits are checked (server.py, processor.py, connection.py)."""

from dataclasses import dataclass
from typing import Final

from records.units import KiB, MiB

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
