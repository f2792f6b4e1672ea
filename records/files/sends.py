"""The common part of all sends: the protocol, and the bytes that a channel has not taken yet.

A *send* is a series of bytes on their way out, whose size is known before the first one. Its driver
calls `write_to` whenever the channel is writable, until it is `completed`.

Not here: writing to a channel (channel.py), the bytes (zero_copy.py; downconvert's sends)."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from .channel import Write, writer

NOTHING: Final = memoryview(b"")
_NONE_YET: Final = object()  # in place of a channel, which may be any object, also None


class Send(Protocol):
    """Bytes on their way out. Only one thread may use it at a time."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    @property
    def completed(self) -> bool:
        """Whether all of them have been written."""

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Makes at most one write, and returns the bytes written. 0 means "not now".

        With a budget it may make several writes, until the channel takes no more or about so many
        bytes have been written."""


def write_all(write: Callable[[int | None], int], budget: int | None) -> int:
    """Calls `write` with the rest of the budget until it has written less than that, or the budget
    is used up; without a budget, once. Returns the bytes written."""
    written = total = write(budget)
    while budget is not None and written and total < budget:
        written = write(budget - total)
        total += written
    return total


def close(send: Send) -> None:
    """Releases the resources of a send whose rest is not needed."""
    release = getattr(send, "close", None)
    if release is not None:
        release()


class PendingBytes:
    """Bytes that wait for a channel. The way to write is determined once for each channel.

    `left`: the bytes that the channel has not taken yet; setting it replaces them. `more`: the
    caller writes other bytes as soon as these are gone."""

    __slots__ = ("_channel", "_more", "_refused", "_write", "left")

    def __init__(self, data: memoryview = NOTHING, *, more: bool = False) -> None:
        self.left = data
        self._more = more
        self._channel: Any = _NONE_YET
        self._write: Write
        # The size of the last write, if the channel took nothing. TLS may have sent a part of it,
        # and then accepts no shorter write.
        self._refused = 0

    def copy(self) -> None:
        """Copies the waiting bytes out of their buffer. Then it can be reused, or freed if they are
        only a small part of it."""
        left, buffer = self.left, self.left.obj
        if not isinstance(buffer, bytes) or len(buffer) > 2 * len(left):
            self.left = memoryview(bytes(left))

    def write_to(self, channel: Any, size_max: int | None = None) -> int:
        """Makes one write of at most `size_max` bytes, and returns the bytes written. 0 means "not
        now", or that nothing waits. Errors of the channel are passed on, and the bytes still
        wait."""
        left = self.left
        if not left:
            return 0
        if channel is not self._channel:
            self._write = writer(channel, more=self._more)
            self._channel = channel
        part = left if size_max is None else left[: max(size_max, self._refused)]
        written = self._write(part)
        self._refused = 0 if written else len(part)
        self.left = left[written:] if written < len(left) else NOTHING
        return written
