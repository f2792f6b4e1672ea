"""Holds converted messages until they are taken. A conversion that only measures sizes uses an
output without a buffer.

Not here: writing messages (the kernel, wrapper.py), sending (send.py)."""

from downconvert.conversion import buffers
from downconvert.conversion.buffers import NO_BUFFER, NO_VIEW


class Output:
    """A piece of n bytes is `ready[:n]` until the next one is requested.

    Plain messages are written to `target` and are ready there. A compressed message is ready in its
    own bytes. is_measuring: nothing is written, and only sizes are needed. temporary_bytes: those
    that the kernel does not count."""

    __slots__ = ("_buffer", "_size", "is_measuring", "ready", "target", "temporary_bytes")

    def __init__(self, size: int) -> None:
        """`size`: bytes of the buffer."""
        self._size = size
        self.is_measuring = False
        self.temporary_bytes = 0
        self._buffer = NO_BUFFER
        self.target = self.ready = NO_VIEW

    def open(self, *, is_measuring: bool) -> None:
        """Begins an item. Takes the buffer if it needs one."""
        self.is_measuring = is_measuring
        if not is_measuring and not self._buffer:
            self._buffer = buffers.take(self._size)
            self.target = memoryview(self._buffer)
        self.ready = self.target

    def release(self) -> None:
        """Returns the buffer for reuse. All ready bytes have been taken."""
        buffers.release(self._buffer)
        self._buffer = NO_BUFFER
        self.target = self.ready = NO_VIEW

    @property
    def held_bytes(self) -> int:
        """The size of its buffer, and of a compressed message that is ready."""
        return len(self._buffer) + (0 if self.ready is self.target else len(self.ready))

    def plain(self) -> None:
        """Makes the bytes in `target` the next piece."""
        self.ready = self.target

    def emit_wrappers(self, messages: bytes) -> int:
        """Makes compressed messages the next piece. Returns the piece's size."""
        self.ready = memoryview(messages)
        return len(messages)
