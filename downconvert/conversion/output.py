"""Where converted messages lie until they have been taken, and whether there are any: sizes are
measured by the same conversion, without an output buffer.

Not here: what is written (the kernel, wrapper.py), who takes it (send.py, eager.py)."""

from . import buffers
from .wrapper import FinishedWrapper


class Output:
    """A piece of n bytes is `ready[:n]` until the next one is asked for.

    Plain messages are written to `target`, and are ready there. A compressed one is ready where it
    was made."""

    __slots__ = ("_buffer", "_is_open", "_size", "_was_open", "is_measuring", "ready", "target")

    def __init__(self, size: int, *, is_measuring: bool = False) -> None:
        """`size`: of the buffer, which is had from `open` on."""
        self.is_measuring = is_measuring
        self._size = size
        self._is_open = self._was_open = False
        self._buffer = bytearray()
        self.target = self.ready = memoryview(self._buffer)

    @property
    def buffer_bytes(self) -> int:
        """The size of its buffer, once it has had one."""
        return self._size if self._was_open else 0

    def open(self) -> None:
        """Takes the buffer, if it has none."""
        if not self._is_open:
            self._is_open = self._was_open = True
            self._buffer = buffers.take(self._size)
            self.target = self.ready = memoryview(self._buffer)

    def release(self) -> None:
        """What was ready has been taken: the buffer is for others now."""
        buffers.release(self._buffer)
        self._is_open = False
        self._buffer = bytearray()
        self.target = self.ready = memoryview(self._buffer)

    def plain(self) -> None:
        """What comes next is in `target`."""
        self.ready = self.target

    def messages(self, made: bytes) -> int:
        """Messages that have been made elsewhere are the next piece; its size."""
        if not self.is_measuring:
            self.ready = memoryview(made)
        return len(made)

    def wrapper(self, made: FinishedWrapper) -> int:
        """A compressed message is the next piece; its size."""
        if self.is_measuring:
            return made.size
        self.ready = memoryview(made.message())
        return len(self.ready)
