"""Bytes a second for each client, so that one cannot starve the others.

Kafka's producer_byte_rate and consumer_byte_rate: what a client's produces and the answers to its
fetches take. Who takes more is answered, and then not read from until its rate is kept again; newer
clients are told for how long [KIP-13, KIP-219]. A client is its user, its certificate or its
address: all its connections share its rate, and connecting again does not help.

Not here: who has which rate (rights.py), not reading from a connection (the server)."""

from collections import OrderedDict
from math import inf
from threading import Lock
from typing import Final

BURST: Final = 1.0  # seconds: what has not been used may be, later, as far as this
# Seconds of a client's rate that one answer may take: Kafka's window of samples. A first
# batch comes whole, so that a client gets on.
WINDOW: Final = 10.0
CLIENTS_MAX: Final = 10_000


class Quotas:
    """What clients have taken. Any thread may call anything. Times in seconds of any clock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._paid_at: OrderedDict[tuple[str, str], float] = OrderedDict()

    def charge(self, client: str, kind: str, size: int, rate: float, now: float) -> float:
        """A client has taken so many bytes, of a kind that has a rate in bytes a second. Returns
        the seconds until it has kept its rate, or 0."""
        with self._lock:
            paid_at = max(self._paid_at.pop((client, kind), -inf), now - BURST) + size / rate
            self._paid_at[client, kind] = paid_at
            if len(self._paid_at) > CLIENTS_MAX:  # the one that has taken nothing for longest
                self._paid_at.popitem(last=False)
        return max(0.0, paid_at - now)
