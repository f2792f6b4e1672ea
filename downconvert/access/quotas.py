"""Rates of each client, in bytes or in work a second, so that no client can starve the others.

These are Kafka's quotas: producer_byte_rate for produce requests, consumer_byte_rate for the
responses to fetches, and request_percentage. A client above its rate gets its response, and is then
muted until the rate is kept again. Newer clients get the time in the response [KIP-13, KIP-124,
KIP-219]. A client is a user, a certificate or an address. All its connections share one rate, so
connecting again does not help.

Not here: the clients' rates (rights.py), where they are stored (ledger.py), muting a connection
(the server)."""

from typing import Final

from .ledger import Entry, Ledger, OwnLedger

BURST: Final = 1.0  # seconds: this much of an unused rate may be used later
# Seconds of a client's rate that one response may use: Kafka's window of samples. But a first batch
# is sent whole, so that the client makes progress.
WINDOW: Final = 10.0


class Quotas:
    """The clients' use of their rates. Thread-safe. Times in seconds of any clock, the same clock
    for all users of a ledger."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = OwnLedger() if ledger is None else ledger

    def charge(self, client: str, kind: str, size: float, rate: float, now: float) -> float:
        """Charges `size` bytes or seconds of a kind to a client. `rate`: how many it may use a
        second. Returns the seconds until the rate is kept again, or 0."""
        paid_at = now

        def take(entry: Entry) -> Entry:
            nonlocal paid_at
            paid_at = max(entry.time, now - BURST) + size / rate
            return Entry(paid_at)

        self._ledger.change(f"{kind} {client}", take)
        return max(0.0, paid_at - now)
