"""The clock of a server."""

import time


class Clock:
    """Seconds since the epoch. The clock starts at the system's time, and then counts elapsed time.
    So it never goes back, even if the system's clock is set."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._epoch + time.monotonic()

    def shift(self) -> float:
        """Seconds by which the system's clock is ahead, because it was set."""
        return time.time() - self()
