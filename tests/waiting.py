"""Tests wait here for what other threads and processes do."""

import time
from collections.abc import Callable
from typing import Final

SECONDS: Final = 60.0  # on a machine that does other things
PAUSE: Final = 0.002


def wait_for(holds: Callable[[], bool], seconds: float = SECONDS, *, pause: float = PAUSE) -> None:
    """Returns once it is so; AssertionError: it is not after so many seconds.

    A test whose `holds` takes long asks less often, with a longer `pause`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true in {seconds:.0f} s"
        time.sleep(pause)
