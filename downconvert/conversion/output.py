"""Holds converted messages until they are taken. The same conversion measures sizes with an output
that has no buffer.

Not here: writing messages (the kernel, wrapper.py), sending (send.py, eager.py)."""

from . import buffers
from .buffers import NO_BUFFER, NO_VIEW


class Output:
    """A piece of n bytes is `ready[:n]` until the next one is requested.

    Plain messages are written to `target` and are ready there. A compressed message is ready in its
    own bytes. is_measuring: nothing is written, and only sizes are needed."""

    __slots__ = ("_buffer", "_is_open", "_size", "_was_open", "is_measuring", "ready", "target")

    def __init__(self, size: int, *, is_measuring: bool = False) -> None:
        """`size`: bytes of the buffer. `open` takes it, unless the output only measures."""
        self._size = size
        self.is_measuring = is_measuring
        self._is_open = self._was_open = False
        self._buffer = NO_BUFFER
        self.target = self.ready = NO_VIEW

    @property
    def buffer_bytes(self) -> int:
        """The size of its buffer, or 0 before the first `open`."""
        return self._size if self._was_open else 0

    def open(self) -> None:
        """Takes the buffer if it has none."""
        if not self._is_open and not self.is_measuring:
            self._is_open = self._was_open = True
            self._buffer = buffers.take(self._size)
            self.target = self.ready = memoryview(self._buffer)

    def release(self) -> None:
        """Returns the buffer for reuse. All ready bytes have been taken."""
        buffers.release(self._buffer)
        self._is_open = False
        self._buffer = NO_BUFFER
        self.target = self.ready = NO_VIEW

    def plain(self) -> None:
        """The next piece is in `target`."""
        self.ready = self.target

    def wrapper(self, message: bytes) -> int:
        """Makes a compressed message the next piece. Returns the piece's size."""
        self.ready = memoryview(message)
        return len(message)
