"""Bytes that are read forward, and the part of them that is in memory.

A window holds bytes that were read and are not used yet. It grows only when it is full of bytes
that really exist and the next item is still incomplete: a size claimed by the bytes never makes it
grow.

Not here: decompressed bytes (compressed.py), the meaning of the bytes (reader.py)."""

from typing import Final, Protocol

from records.errors import CorruptRecordsError
from records.kernel import UNKNOWN, Buffer
from records.units import KiB

from .source import TRUNCATED, Records

WINDOW_SIZE: Final = 32 * KiB  # bytes, unless a record is larger


class Stream(Protocol):
    """A source of bytes that is read forward: a stretch of a file, or a decoder."""

    def read_into(self, target: memoryview) -> int:
        """The next bytes into `target`; returns their number, 0 at the end."""


class Stretch:
    """The bytes of records from `start` up to `end`, read forward."""

    __slots__ = ("_end", "_position", "_records")

    def __init__(self, records: Records, start: int, end: int) -> None:
        self._records = records
        self._position = start
        self._end = end

    def read_into(self, target: memoryview) -> int:
        left = self._end - self._position
        if not left:
            return 0
        read = self._records.read_into(target[:left], self._position)
        if not read:
            raise CorruptRecordsError(TRUNCATED, self._records.origin + self._position)
        self._position += read
        return read


class Window:
    """`buffer[start:filled]` are the bytes that were read from a stream and are not used yet.

    `base` is the position of the buffer's first byte in the stream. Code that uses bytes moves
    `start`."""

    __slots__ = ("_stream", "base", "buffer", "filled", "position", "start", "view")

    def __init__(self, stream: Stream | None, buffer: Buffer, position: int) -> None:
        """An empty window. `position`, for errors, is where the stream's first byte is in the file.
        Without a stream, the whole buffer is the content."""
        self._stream = stream
        self.buffer = buffer
        self.view = memoryview(buffer)
        self.position = position
        self.base = self.start = 0
        self.filled = 0 if stream else len(buffer)

    @property
    def ended(self) -> bool:
        """Whether all of the stream has been read."""
        return self._stream is None

    @property
    def holds_all(self) -> bool:
        """Whether all of the stream has been read and its first byte is still here."""
        return self._stream is None and self.base == 0

    @property
    def is_full(self) -> bool:
        """Whether there is no space until some bytes are used."""
        return self.start == 0 and self.filled == len(self.view)

    @property
    def remaining(self) -> int:
        """Bytes from `start` to the end of the stream; UNKNOWN until its end has been reached."""
        return self.filled - self.start if self._stream is None else UNKNOWN

    def fill(self) -> None:
        """Makes space, and reads until the window is full or the stream ends."""
        stream = self._stream
        if stream is None:
            return
        left = self.filled - self.start
        if self.start:
            self.view[:left] = self.view[self.start : self.filled]
            self.base += self.start
        elif left == len(self.buffer):
            larger = bytearray(2 * left)
            larger[:left] = self.buffer
            self.buffer, self.view = larger, memoryview(larger)
        self.start, self.filled = 0, left
        while self.filled < len(self.buffer):
            read = stream.read_into(self.view[self.filled :])
            if not read:
                self._stream = None
                return
            self.filled += read

    def has_more(self) -> bool:
        """Whether there are unused bytes."""
        if self.start == self.filled:
            self.fill()
        return self.start < self.filled

    def damage(self, reason: str, index: int) -> CorruptRecordsError:
        """The error for damage at an index of the buffer."""
        return CorruptRecordsError(reason, self.position + self.base + index)
