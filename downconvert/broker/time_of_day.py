"""The time of day, as records and commits have it, beside the clock that deadlines go by.

A broker's `now` never goes back and never jumps, so that nothing is late because somebody has set
the system's clock. What is written to disk says the time that others would say: that of the
system's clock, also after it was set. Without a server the two are one.

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
