"""Failed logins, by address: each further guess of a password has to wait longer.

All connections of an address share its waits, so that many connections guess no faster than one.
An address without a recent failure does not wait."""

from collections import OrderedDict
from threading import Lock
from typing import Final

FIRST_WAIT: Final = (
    0.1  # seconds after a failure: Kafka's connection.failed.authentication.delay.ms
)
LONGEST_WAIT: Final = 10.0
FORGOTTEN: Final = 300.0  # seconds after which a failure no longer counts
ADDRESSES_MAX: Final = 10_000


class FailedLogins:
    """Thread-safe. Times in seconds of any one clock."""

    def __init__(self) -> None:
        self._lock = Lock()
        # By address: failures in a row, and when the next attempt may be looked at.
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait(self, address: str, now: float) -> float:
        """Seconds until this attempt may be checked. The caller has then taken its turn."""
        with self._lock:
            count, free_at = self._failures.get(address, (0, now))
            if now - free_at > FORGOTTEN:
                del self._failures[address]
                return 0.0
            if not count:
                return 0.0
            wait = max(free_at - now, 0.0)
            self._failures[address] = count, now + wait + _pause(count)
            return wait

    def add(self, address: str, now: float) -> None:
        """An attempt failed."""
        with self._lock:
            count, free_at = self._failures.pop(address, (0, now))
            self._failures[address] = count + 1, max(free_at, now + _pause(count + 1))
            if len(self._failures) > ADDRESSES_MAX:
                self._failures.popitem(last=False)


def _pause(count: int) -> float:
    return min(FIRST_WAIT * 2.0 ** min(count - 1, 20), LONGEST_WAIT)
