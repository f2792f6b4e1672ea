"""Returns freed memory to the system after many connections have ended.

After a storm of connections, the allocator keeps most of their memory for later ones. The process
would not shrink, and a container could be stopped for its memory."""

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Final

PEAK_MIN: Final = 256  # connections; fewer take little memory


def return_freed_memory() -> None:
    """Returns freed memory to the system: that of Python's free lists, and (glibc only) of the
    allocator. Takes tens of milliseconds, and calls the garbage collector."""
    gc.collect()  # a full collection also empties Python's lists of free objects
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class FreedMemory:
    """Returns freed memory once, after at least half of the connections have ended."""

    def __init__(self, give_back: Callable[[], None] = return_freed_memory) -> None:
        self._give_back = give_back
        self._peak = 0  # since memory was last returned
        self._before = 0  # at the last look

    def look(self, connections: int, peak: int) -> None:
        """To be called once a second, with the number of open connections, and the highest number
        since the last call: a storm may take less than a second."""
        is_falling = connections < self._before or connections + PEAK_MIN // 2 <= peak
        self._before = connections
        self._peak = max(self._peak, peak)
        if self._peak >= PEAK_MIN and connections <= self._peak // 2 and not is_falling:
            self._peak = connections
            self._give_back()
