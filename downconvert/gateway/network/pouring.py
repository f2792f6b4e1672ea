"""Hands bytes to a sink as they arrive."""

from collections.abc import Callable

from .ended import ConnectionEndedError


class Pouring:
    """Up to `left` bytes for a sink, `piece_size` at a time, while `goes_on()`.

    `failure`: what the sink raised."""

    __slots__ = ("_goes_on", "_piece_size", "_sink", "failure", "left")

    def __init__(
        self,
        sink: Callable[[memoryview], object],
        left: int,
        piece_size: int,
        goes_on: Callable[[], bool],
    ) -> None:
        self.left = left
        self.failure: Exception | None = None
        self._sink = sink
        self._piece_size = piece_size
        self._goes_on = goes_on

    @property
    def read_size(self) -> int:
        return min(self.left, self._piece_size)

    def is_done(self) -> bool:
        return not self.left or self.failure is not None or not self._goes_on()

    def take(self, piece: memoryview) -> bool:
        """Hands a piece to the sink. Returns whether no more is taken."""
        try:
            self._sink(piece)
        except (OSError, ConnectionEndedError) as error:
            self.failure = error
        self.left -= len(piece)
        return self.is_done()
