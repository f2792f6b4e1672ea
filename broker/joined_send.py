"""Several sends as one, in one field of a response."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from broker.encoder import Sendable


class JoinedSend:
    """The bytes of several sends, one after the other."""

    __slots__ = ("_sends", "parts", "size")

    def __init__(self, sends: Iterable[Sendable]) -> None:
        self.parts = tuple(sends)
        self.size = sum(send.size for send in self.parts)
        self._sends = deque(self.parts)

    @property
    def completed(self) -> bool:
        return all(send.completed for send in self._sends)

    def write_to(self, channel: Any) -> int:
        """Makes at most one write, and returns the bytes written; 0: not now."""
        while self._sends and self._sends[0].completed:
            self._sends.popleft()
        return self._sends[0].write_to(channel) if self._sends else 0
