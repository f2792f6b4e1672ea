"""Passes bytes to a sink as they arrive. They are read into the thread's buffer."""

import threading
from collections.abc import Callable
from typing import Final

from records.units import KiB

from .ended import ConnectionEndedError

SCRATCH_SIZE: Final = 256 * KiB  # bytes of a thread's buffer for reading


class Scratch(threading.local):
    """Each thread's `buffer` for reading. The content is valid until the next await."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(SCRATCH_SIZE))


SCRATCH: Final = Scratch()


class Receiver:
    """Passes up to `left` bytes to a sink, `piece_size` at a time, while `may_continue()` is true.

    `failure`: the error that the sink raised."""

    __slots__ = ("_may_continue", "_piece_size", "_sink", "failure", "left")

    def __init__(
        self,
        sink: Callable[[memoryview], object],
        left: int,
        piece_size: int,
        may_continue: Callable[[], bool],
    ) -> None:
        self.left = left
        self.failure: Exception | None = None
        self._sink = sink
        self._piece_size = piece_size
        self._may_continue = may_continue

    @property
    def read_size(self) -> int:
        return min(self.left, self._piece_size)

    def is_done(self) -> bool:
        return not self.left or self.failure is not None or not self._may_continue()

    def take(self, piece: memoryview) -> bool:
        """Passes a piece to the sink. Returns whether it was the last one."""
        try:
            self._sink(piece)
        except (OSError, ConnectionEndedError) as error:
            self.failure = error
        self.left -= len(piece)
        return self.is_done()
