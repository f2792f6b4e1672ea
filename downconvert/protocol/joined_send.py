"""Joins several sends into one, for one field of a response."""

from collections.abc import Iterable
from typing import Any

from records.files.sends import Send, close, write_all


class JoinedSend:
    """The bytes of several sends, one after the other."""

    __slots__ = ("_left", "parts", "size")

    def __init__(self, sends: Iterable[Send]) -> None:
        self.parts = tuple(sends)
        self.size = 0
        for send in self.parts:
            self.size += send.size
        self._left = list(reversed(self.parts))  # the next one is at the end

    @property
    def completed(self) -> bool:
        while self._left and self._left[-1].completed:
            self._left.pop()
        return not self._left

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Makes at most one write, or several with a budget. Returns the bytes written. 0: not
        now."""
        return write_all(lambda left: self._write_part(channel, left), budget)

    def _write_part(self, channel: Any, budget: int | None) -> int:
        return 0 if self.completed else self._left[-1].write_to(channel, budget)

    def copy_to(self, buffer: memoryview) -> bool:
        """Like `ZeroCopySend.copy_to`. Also returns False if a part has no such method."""
        for part in self.parts:
            copy = getattr(part, "copy_to", None)
            if copy is None or not copy(buffer):
                return False
            buffer = buffer[part.size :]
        return True

    def skip(self, size: int) -> None:
        """Skips bytes that were sent in another way. Must be called before any `write_to`."""
        for part in self.parts:
            skipped = min(size, part.size)
            part.skip(skipped)  # type: ignore[attr-defined]  # each of them has `copy_to`
            size -= skipped

    def close(self) -> None:
        """Releases the resources of unsent parts."""
        for part in self.parts:
            close(part)
