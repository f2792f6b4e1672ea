"""Bytes a second for each client, so that one cannot starve the others.

Kafka's producer_byte_rate and consumer_byte_rate: what a client's produces and the answers to its
fetches take. Who takes more is answered, and then not read from until its rate is kept again; newer
clients are told for how long [KIP-13, KIP-219]. A client is its user, its certificate or its
address: all its connections share its rate, and connecting again does not help.

Not here: who has which rate (rights.py), where it is kept (ledger.py), not reading from a
connection (the server)."""

from typing import Final

from .ledger import Entry, Ledger, OwnLedger

BURST: Final = 1.0  # seconds: what has not been used may be, later, as far as this
# Seconds of a client's rate that one answer may take: Kafka's window of samples. A first
# batch comes whole, so that a client gets on.
WINDOW: Final = 10.0


class Quotas:
    """What clients have taken. Any thread may call anything. Times in seconds of any clock, which
    those who share a ledger share, too."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = OwnLedger() if ledger is None else ledger

    def charge(self, client: str, kind: str, size: int, rate: float, now: float) -> float:
        """A client has taken so many bytes, of a kind that has a rate in bytes a second. Returns
        the seconds until it has kept its rate, or 0."""
        paid_at = now

        def take(entry: Entry) -> Entry:
            nonlocal paid_at
            paid_at = max(entry.time, now - BURST) + size / rate
            return Entry(paid_at)

        self._ledger.change(f"{kind} {client}", take)
        return max(0.0, paid_at - now)
