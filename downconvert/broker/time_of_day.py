"""The time of day, for records and commits. Deadlines use another clock.

A broker's `now` never goes back and never jumps, so setting the system's clock does not affect
deadlines. Files on disk get the system's time. Without a server, both clocks are the same.

Not here: reading clocks (server.py)."""


class TimeOfDay:
    """`shift`: seconds by which the system's clock is ahead of `now`."""

    __slots__ = ("shift",)

    def __init__(self) -> None:
        self.shift = 0.0

    def at(self, now: float) -> float:
        """Seconds since the epoch."""
        return now + self.shift

    def ms(self, now: float) -> int:
        """Milliseconds since the epoch."""
        return int((now + self.shift) * 1000)
