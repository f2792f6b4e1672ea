"""The connections of each client: how many it has, and how fast it makes new ones.

A client is a user, a certificate or an address. A connection counts from the identification of its
client until its end. New connections that come too fast wait, as with Kafka's
connection_creation_rate. A connection that would wait for too long is refused.

Only clients that have connections are remembered. A rate is in a ledger of bounded size.

Not here: the limits (rights.py), connections of all clients (the gateway's places)."""

from collections import Counter
from threading import Lock
from typing import Final

from .ledger import Entry, Ledger, OwnLedger
from .rights import Access

BURST: Final = 1.0  # seconds: this much of an unused rate may be used later
# Seconds that a new connection may wait. Kafka's clients wait 30 s for a response.
LONGEST_WAIT: Final = 5.0


class OverLimitError(Exception):
    """A connection is refused. The message is for the log."""


class Admissions:
    """The connections of all clients. Thread-safe. `now`: seconds of any clock, the same clock for
    all users of a ledger."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._lock = Lock()
        self._connections = Counter[str]()
        self._ledger = OwnLedger() if ledger is None else ledger

    def __len__(self) -> int:
        """The number of remembered clients."""
        return len(self._connections)

    def enter(self, client: str, access: Access, now: float) -> float:
        """Counts a connection until `leave`. Returns the seconds that it must wait. OverLimitError:
        the connection is refused, and does not count."""
        rate = access.connection_creation_rate
        with self._lock:
            if access.connections is not None and self._has(client) >= access.connections:
                raise OverLimitError(f"it has {access.connections} connections already")
            wait = 0.0 if rate is None else self._wait(client, rate, now)
            self._connections[client] += 1
        return wait

    def leave(self, client: str) -> None:
        """A counted connection has ended."""
        with self._lock:
            self._connections[client] -= 1
            if not self._connections[client]:
                del self._connections[client]

    def _has(self, client: str) -> int:
        return self._connections.get(client, 0)

    def _wait(self, client: str, rate: float, now: float) -> float:
        wait = 0.0
        longest = LONGEST_WAIT + 1 / rate

        def take(entry: Entry) -> Entry | None:
            nonlocal wait
            # If the time is later, the clock was set back.
            paid_at = entry.time if entry.time <= now + longest else now
            paid_at = max(paid_at, now - max(BURST, 1 / rate))
            wait = max(0.0, paid_at + 1 / rate - now)
            return None if wait > LONGEST_WAIT else Entry(paid_at + 1 / rate)

        self._ledger.change(client, take)
        if wait > LONGEST_WAIT:
            raise OverLimitError(f"it makes more than {rate:g} connections a second")
        return wait
