"""Where converted messages lie until they have been taken, and whether there are any: sizes are
measured by the same conversion, without an output buffer.

Not here: what is written (the kernel, wrapper.py), who takes it (send.py, eager.py), outputs that
hold something back (padded.py)."""

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
        """`size`: of the buffer, which is had from `open` on."""
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
        """What was ready has been taken: the buffer is for others now."""
        buffers.release(self._buffer)
        self._is_open = False
        self._buffer = NO_BUFFER
        self.target = self.ready = NO_VIEW

    def plain(self) -> None:
        """What comes next is in `target`."""
        self.ready = self.target

    def wrapper(self, message: bytes) -> int:
        """A compressed message is the next piece; its size."""
        self.ready = memoryview(message)
        return len(message)

    def before_plain(self) -> None:
        """A plain message is about to be made out of a compressed batch."""

    def before_direct(self, promised: int, end: int) -> tuple[int, int, bytes | None]:
        """What the kernel may write itself: so many bytes, of the records up to there; and what it
        has to write before that and hold back of the rest, or None: it holds nothing back."""
        return promised, end, None

    def after_direct(self, size: int, held: bytes | None) -> None:
        """What the kernel has written, or left to be written, and what it holds back."""

    def settle(self) -> Iterator[int]:
        """What is held back; sizes of its pieces."""
        return iter(())


class MeasuredOutput(Output):
    """No output at all: sizes are all that is asked for. `last`: the compressed messages that were
    made last; `wrapper_bytes`: the bytes of all of them."""

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
