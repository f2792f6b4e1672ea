"""Rates of each client, so that one cannot starve the others: bytes, or work, in a second.

These are Kafka's producer_byte_rate and consumer_byte_rate, for a client's produce requests and for
the responses to its fetches, and request_percentage. A client above its rate gets its response, and
is then not read from until the rate is kept again. Newer clients get that time in the response
[KIP-13, KIP-124, KIP-219]. A client is its user, its certificate or its address. All its
connections share one rate, so connecting again does not help.

Not here: the clients' rates (rights.py), where they are stored (ledger.py), muting a connection
(the server)."""

from typing import Final

from .ledger import Entry, Ledger, OwnLedger

BURST: Final = 1.0  # seconds: up to so much of an unused rate may be used later
# Seconds of a client's rate that one response may use: Kafka's window of samples. A first batch is
# sent whole, so that a client makes progress.
WINDOW: Final = 10.0


class Quotas:
    """The clients' use of their rates. Thread-safe. Times in seconds of any clock, the same for all
    that share a ledger."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = OwnLedger() if ledger is None else ledger

    def charge(self, client: str, kind: str, size: float, rate: float, now: float) -> float:
        """Charges bytes of a kind, or seconds of work, to a client with a rate of them in a second.
        Returns the seconds until the rate is kept again, or 0."""
        paid_at = now

        def take(entry: Entry) -> Entry:
            nonlocal paid_at
            paid_at = max(entry.time, now - BURST) + size / rate
            return Entry(paid_at)

        self._ledger.change(f"{kind} {client}", take)
        return max(0.0, paid_at - now)
