"""The time of a server."""

import time


class Clock:
    """Seconds since the epoch; never goes back, also where the system's clock is set."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._epoch + time.monotonic()
