"""Where converted messages lie until they have been taken. Sizes are measured by the same
conversion, with an output that has no buffer.

Not here: what is written (the kernel, wrapper.py), where it goes (send.py, eager.py), an output
that holds a message back (padded.py)."""

from collections.abc import Iterator

from . import buffers
from .buffers import NO_BUFFER, NO_VIEW


class Output:
    """A piece of n bytes is `ready[:n]` until the next one is asked for.

    Plain messages are written to `target`, and are ready there. A compressed one is ready where it
    was made."""

    is_measuring = False
    padding_bytes = 0

    __slots__ = ("_buffer", "_is_open", "_size", "_was_open", "ready", "target")

    def __init__(self, size: int) -> None:
        """`size`: of the buffer, which is taken by `open`."""
        self._size = size
        self._is_open = self._was_open = False
        self._buffer = NO_BUFFER
        self.target = self.ready = NO_VIEW

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
        """Returns the buffer to the spare ones: what was ready has been taken."""
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

    def before_plain(self) -> None:
        """A plain message is about to be made out of a compressed batch."""

    def before_direct(self, promised: int, end: int) -> tuple[int, int, bytes | None]:
        """What the kernel may write by itself: at most so many bytes, of the records up to an end;
        and the message held back (empty: none yet), or None where nothing is held back."""
        return promised, end, None

    def after_direct(self, size: int, held: bytes | None) -> None:
        """Notes what the kernel has done: bytes written, or left to be written, and the message
        that it holds back."""

    def settle(self) -> Iterator[int]:
        """Ends the answer with the message held back, if there is one. Yields its pieces' sizes."""
        return iter(())


class MeasuredOutput(Output):
    """No output at all: only sizes are asked for. `last`: the compressed messages that were made
    last; `wrapper_bytes`: the bytes of all compressed messages."""

    is_measuring = True

    __slots__ = ("last", "wrapper_bytes")

    def __init__(self) -> None:
        super().__init__(0)
        self.last = b""
        self.wrapper_bytes = 0

    def wrapper(self, message: bytes) -> int:
        self.last = message
        self.wrapper_bytes += len(message)
        return len(message)
