"""What every send has in common: the protocol, and the bytes that a channel has not taken yet.

A *send* is something on its way out, whose size is known before its first byte. Whoever drives it
calls `write_to` whenever the channel takes something, until it is `completed`.

Not here: how a channel is written to (channel.py), what is sent (zero_copy.py; downconvert's
sends)."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from .channel import Write, writer

NOTHING: Final = memoryview(b"")
_NONE_YET: Final = object()  # in the place of a channel, which may be anything, also None


class Send(Protocol):
    """Bytes on their way out. Not for two threads at a time."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    @property
    def completed(self) -> bool:
        """Whether all of them have been written."""

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Makes at most one write, and returns the bytes written; 0: not now.

        With a budget it may make several, until the channel takes no more or about so many bytes
        have been written."""


def write_all(write: Callable[[int | None], int], budget: int | None) -> int:
    """Calls `write` with what is left of the budget until it has written less than it could, or
    the budget is used up; once, if there is none. The bytes written."""
    written = total = write(budget)
    while budget is not None and written and total < budget:
        written = write(budget - total)
        total += written
    return total


def close(send: Send) -> None:
    """Nobody wants the rest: releases what the send holds, if it holds anything."""
    release = getattr(send, "close", None)
    if release is not None:
        release()


class PendingBytes:
    """Bytes that wait for a channel. How to write to the channel is found out once for each.

    `left`: those that it has not taken yet. Whoever sets it replaces what waits. `more`: other
    bytes are written at once, as soon as these are gone."""

    __slots__ = ("_channel", "_more", "_write", "left")

    def __init__(self, data: memoryview = NOTHING, *, more: bool = False) -> None:
        self.left = data
        self._more = more
        self._channel: Any = _NONE_YET
        self._write: Write

    def copy(self) -> None:
        """Copies what waits, so that the buffer that it lies in may be used for something else, and
        is not kept for the sake of its last bytes."""
        left, buffer = self.left, self.left.obj
        if not isinstance(buffer, bytes) or len(buffer) > 2 * len(left):
            self.left = memoryview(bytes(left))

    def write_to(self, channel: Any, size_max: int | None = None) -> int:
        """Makes one write of at most `size_max` bytes, and returns the bytes written; 0: not now,
        or nothing waits. What the channel raises is the caller's, and nothing is lost by it."""
        left = self.left
        if not left:
            return 0
        if channel is not self._channel:
            self._write = writer(channel, more=self._more)
            self._channel = channel
        written = self._write(left if size_max is None else left[:size_max])
        self.left = left[written:] if written < len(left) else NOTHING
        return written
