"""Keeps the time of the last request that needed the gateway, by topic and principal. It shows when
the gateway can be removed.

The times outlive the process: `join` adds those of an earlier process or of another gateway. Times
that do not fit are kept for `(others)`. So no date is lost, and none becomes earlier.

Not here: the file (cli/gateway_history.py), which requests need the gateway (session.py)."""

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any, Final, TypeAlias

from downconvert.protocol.schemas import Message
from downconvert.serving.series import NAME_MAX, OTHERS

ROWS_MAX: Final = 10_000
NO_TOPIC: Final = ""
Row: TypeAlias = tuple[str, str, float]  # topic, principal, seconds since the epoch


class LastOld:
    """The times of the last requests. Thread-safe."""

    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        self._rows_max = rows_max
        self._lock = Lock()
        self._seen: dict[tuple[str, str], float] = {}

    def add_request(self, body: Message, principal: str, now: float) -> None:
        """Adds a request that needs the gateway. `now`: the time of day."""
        self.join((topic, principal[:NAME_MAX], now) for topic in _topics(body))

    def join(self, rows: Iterable[Row]) -> None:
        """Adds other rows. For equal keys the later time counts."""
        with self._lock:
            for topic, principal, seconds in rows:
                key = topic, principal
                if key not in self._seen and len(self._seen) >= self._rows_max:
                    key = OTHERS, OTHERS
                self._seen[key] = max(seconds, self._seen.get(key, 0.0))

    def rows(self) -> list[Row]:
        """All rows, in no order."""
        with self._lock:
            return [(*key, seconds) for key, seconds in self._seen.items()]


def _topics(body: Message) -> Iterator[str]:
    """The topics that a request names, or the empty text if it names none."""
    fields: dict[str, Any] = vars(body)
    named = fields.get("topics") or fields.get("topic_data") or ()
    is_empty = True
    for one in named:
        is_empty = False
        found = one if isinstance(one, str) else (vars(one).get("name") or vars(one).get("topic"))
        yield str(found or NO_TOPIC)[:NAME_MAX]
    if is_empty:
        yield NO_TOPIC
