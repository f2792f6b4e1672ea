"""Tests wait here for what other threads and processes do."""

import time
from collections.abc import Callable
from typing import Final

SECONDS: Final = 30.0


def wait_for(holds: Callable[[], bool]) -> None:
    """Returns once it is so; AssertionError: it will not be."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true in {SECONDS:.0f} s"
        time.sleep(0.002)
