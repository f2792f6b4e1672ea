"""Limits the log lines of one kind per second. Clients or a failing broker may cause thousands of
similar lines. A few are written, and the others only counted.

Not here: the lines (request_log.py, and the gateway's loop.py)."""

from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from records.logged import EscapedLog

LINES_MAX: Final = 10  # of a kind in a second
SECOND: Final = 1.0


@dataclass(slots=True)
class _Kind:
    log: EscapedLog
    level: int
    lines: int = 0
    left_out: int = 0
    last: tuple[str, tuple[object, ...]] = ("", ())  # of the omitted lines


class LineBudget:
    """The line limit of one server. Thread-safe. Times in seconds of any one clock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._began = 0.0
        self._kinds: dict[str, _Kind] = {}

    def write(
        self,
        log: EscapedLog,
        now: float,
        level: int,
        kind: str,
        message: str,
        *args: object,
        **options: Any,
    ) -> None:
        """Writes a line like `log.log`, or only counts it."""
        self.write_omitted(now)
        with self._lock:
            known = self._kinds.setdefault(kind, _Kind(log, level))
            known.lines += 1
            is_left_out = known.lines > LINES_MAX
            if is_left_out:
                known.left_out += 1
                known.last = message, args
        if not is_left_out:
            log.log(level, message, *args, stacklevel=2, **options)

    def write_omitted(self, now: float) -> None:
        """Writes how many lines were omitted in each second. Call it about once a second, and at
        the end with infinity."""
        with self._lock:
            if 0 <= now - self._began < SECOND:
                return
            kinds, self._kinds, self._began = self._kinds, {}, now
        for kind in kinds.values():
            if kind.left_out:
                message, args = kind.last
                kind.log.log(
                    kind.level, f"and %d more, the last one: {message}", kind.left_out, *args
                )
