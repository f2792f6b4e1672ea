"""The clock of a server."""

import time


class Clock:
    """Seconds since the epoch when it was made, and as many later as have passed: it never goes
    back, also where the system's clock is set."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._epoch + time.monotonic()

    def shift(self) -> float:
        """By how many seconds the system's clock is ahead, since it was set."""
        return time.time() - self()
