"""Failed logins, by address: each further guess of a password has to wait longer.

All connections of an address share its waits, so that many connections guess no faster than one.
An address without a recent failure does not wait.

Not here: where they are kept (ledger.py)."""

from typing import Final

from .ledger import Entry, Ledger, OwnLedger

FIRST_WAIT: Final = (
    0.1  # seconds after a failure: Kafka's connection.failed.authentication.delay.ms
)
LONGEST_WAIT: Final = 10.0
FORGOTTEN: Final = 300.0  # seconds after which a failure no longer counts


class FailedLogins:
    """Thread-safe. Times in seconds of any one clock. An entry: when the next attempt may be
    looked at, and the failures in a row."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = OwnLedger() if ledger is None else ledger

    def wait(self, address: str, now: float) -> float:
        """Seconds until this attempt may be checked. The caller has then taken its turn."""
        wait = 0.0

        def take_turn(entry: Entry) -> Entry | None:
            nonlocal wait
            if not entry.number:
                return None
            if now - entry.time > FORGOTTEN:
                return Entry()
            wait = max(entry.time - now, 0.0)
            return Entry(now + wait + _pause(entry.number), entry.number)

        self._ledger.change(address, take_turn)
        return wait

    def add(self, address: str, now: float) -> None:
        """An attempt failed."""

        def fail(entry: Entry) -> Entry:
            count = entry.number + 1
            return Entry(max(entry.time, now + _pause(count)), count)

        self._ledger.change(address, fail)


def _pause(count: int) -> float:
    return min(FIRST_WAIT * 2.0 ** min(count - 1, 20), LONGEST_WAIT)
