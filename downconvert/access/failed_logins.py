"""Failed logins, by user and address. Each further guess of a password must wait longer.

All connections from one address for one user share a wait, so many connections guess little faster
than one. Other users at that address do not wait, nor does that user at other addresses. No wait is
longer than LONGEST_WAIT, however many attempts wait. No slots are reserved, so a client that leaves
while it waits delays nobody.

Not here: where they are stored (ledger.py), the user that a token claims (claim.py), how many may
wait (places.py)."""

from typing import Final, NamedTuple

from .ledger import Entry, Ledger, OwnLedger

FIRST_WAIT: Final = (
    0.1  # seconds after a failure: Kafka's connection.failed.authentication.delay.ms
)
# Seconds. Kafka's clients wait 30 s for a response, and half of that for a connection.
LONGEST_WAIT: Final = 5.0
FORGOTTEN: Final = 300.0  # seconds after which a failure no longer counts
USER_MAX: Final = 256  # characters of a name that are compared


class Attempt(NamedTuple):
    """wait: seconds until the attempt may be checked. is_counted: it counts as a failure until it
    succeeds, so that simultaneous attempts wait longer and longer, too."""

    wait: float
    is_counted: bool


UNCOUNTED: Final = Attempt(0.0, is_counted=False)


class FailedLogins:
    """Thread-safe. Times in seconds of any one clock. An entry has the time of the last attempt,
    and the number of successive failures."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = OwnLedger() if ledger is None else ledger

    def begin(self, user: str, address: str, now: float) -> Attempt:
        """An attempt to log in. It ends with `succeed` or `fail`, or is dropped."""
        attempt = UNCOUNTED

        def count(entry: Entry) -> Entry | None:
            nonlocal attempt
            if not entry.number:
                return None
            if now - entry.time > FORGOTTEN:
                return Entry()
            wait = min(max(entry.time + _pause(entry.number) - now, 0.0), LONGEST_WAIT)
            attempt = Attempt(wait, is_counted=True)
            return Entry(now, entry.number + 1)

        self._ledger.change(_name(user, address), count)
        return attempt

    def fail(self, user: str, address: str, now: float, attempt: Attempt = UNCOUNTED) -> None:
        """An attempt has failed."""

        def fail(entry: Entry) -> Entry:
            more = 0 if attempt.is_counted and entry.number else 1
            return Entry(max(entry.time, now), entry.number + more)

        self._ledger.change(_name(user, address), fail)

    def succeed(self, user: str, address: str, attempt: Attempt) -> None:
        """An attempt has succeeded, and no longer counts. Failures of other attempts still
        count."""
        if attempt.is_counted:
            name = _name(user, address)
            self._ledger.change(name, lambda entry: Entry(entry.time, max(entry.number - 1, 0)))


def _pause(count: int) -> float:
    return min(FIRST_WAIT * 2.0 ** min(count - 1, 20), LONGEST_WAIT)


def _name(user: str, address: str) -> str:
    return f"{address}\0{user[:USER_MAX]}"
