"""Tests wait here for what other threads and processes do."""

import time
from collections.abc import Callable
from typing import Final

SECONDS: Final = 30.0


def wait_for(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Returns once it is so; AssertionError: it is not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true in {seconds:.0f} s"
        time.sleep(0.002)
