"""How many lines of one kind a log gets in a second: what clients or a failing broker make
thousands of is written a few times, and then counted.

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
    last: tuple[str, tuple[object, ...]] = ("", ())  # of those that were left out


class LineBudget:
    """Of one server. Any thread may call it. Times in seconds of any one clock."""

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
        """A line, as `log.log` writes it; or it is counted."""
        self.tell(now)
        with self._lock:
            known = self._kinds.setdefault(kind, _Kind(log, level))
            known.lines += 1
            is_left_out = known.lines > LINES_MAX
            if is_left_out:
                known.left_out += 1
                known.last = message, args
        if not is_left_out:
            log.log(level, message, *args, stacklevel=2, **options)

    def tell(self, now: float) -> None:
        """Writes how many lines were left out, once a second. To be called about as often, and with
        infinity in the end."""
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

    @property
    def has_left_out(self) -> bool:
        """Whether there is something to tell."""
        with self._lock:
            return any(kind.left_out for kind in self._kinds.values())
