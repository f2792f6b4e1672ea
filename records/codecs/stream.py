"""Streams of compressed and decompressed bytes: the common part of all codecs' decoders and
encoders.

A codec decodes as a generator: it takes compressed bytes from `Windows` and yields decompressed
pieces, none larger than its window. `PieceDecoder` turns the pieces into `read_into`. `gather`
joins them for a caller that wants all at once.

A decoder or encoder belongs to one stream, and is used by one thread at a time.

Not here: the formats (a file for each codec)."""

from collections.abc import Callable, Iterator
from typing import Final, Literal, Protocol, TypeAlias

from records.errors import CorruptRecordsError
from records.kernel import Buffer

CompressionLevel: TypeAlias = Literal["fast", "kafka"]
CodecLevel: TypeAlias = CompressionLevel | int  # a number is a level of the codec itself
Pull: TypeAlias = Callable[[], Buffer]

EMPTY: Final = memoryview(b"")


class Decoder(Protocol):
    """Decompressed bytes, read forward."""

    def read_into(self, target: memoryview) -> int:
        """The next bytes into `target`, as many as there are and fit. 0: the stream has ended.

        CorruptRecordsError: damage. All bytes before it were returned. Each further call raises it
        again."""


class Encoder(Protocol):
    """Compresses the written data. All returned bytes, joined, are one compressed stream."""

    def write(self, data: Buffer) -> bytes:
        """Takes `data`, and returns the finished bytes, often none."""

    def finish(self) -> bytes:
        """The rest. Called once, at the end."""


class Windows:
    """Compressed bytes that come in windows of any size, taken as items that may span several
    windows.

    A window is used only until the next one is pulled, because `pull` may return the same buffer
    again. An item that spans windows is assembled from received bytes. Its claimed size allocates
    nothing."""

    __slots__ = ("_at", "_base", "_codec", "_pull", "_rest", "_window")

    def __init__(self, pull: Pull | None, codec: str, window: Buffer = EMPTY) -> None:
        self._pull = pull  # None: there are no more windows
        self._codec = codec
        self._window = memoryview(window)
        self._at = 0
        self._base = 0  # position of the window's first byte
        self._rest = EMPTY  # the next window, if it has been pulled already

    @property
    def position(self) -> int:
        """Bytes taken so far."""
        return self._base + self._at

    def ended(self) -> CorruptRecordsError:
        """The error of a stream whose last window ends within an item."""
        end = self._base + len(self._window)
        return CorruptRecordsError(f"{self._codec} data ends too early", end)

    def peek(self, size: int) -> memoryview:
        """The next `size` bytes, without taking them; fewer only at the end of the stream."""
        left = len(self._window) - self._at
        if left < size:
            self._join(size)
        return self._window[self._at : self._at + size]

    def take(self, size: int) -> memoryview:
        """The next `size` bytes. They are valid until the next call."""
        item = self.peek(size)
        if len(item) < size:
            raise self.ended()
        self._at += size
        return item

    def use(self, size: int) -> None:
        """Takes bytes that `peek` has returned."""
        self._at += size

    def some(self, size_max: int) -> memoryview:
        """The next bytes, at most `size_max`, as received. Empty at the end of the stream."""
        if self._at == len(self._window) and not self._next():
            return EMPTY
        item = self._window[self._at : self._at + size_max]
        self._at += len(item)
        return item

    def back(self, size: int) -> None:
        """Puts back the last taken bytes."""
        self._at -= size

    def skip(self, size: int) -> None:
        while size:
            skipped = len(self.some(size))
            if not skipped:
                raise self.ended()
            size -= skipped

    def _next(self) -> bool:
        """Moves to the next window. False if there is none."""
        window = self._following()
        if not window:
            return False
        self._base += len(self._window)
        self._window = window
        self._at = 0
        return True

    def _following(self) -> memoryview:
        """The bytes after the window; empty if there are none."""
        window, self._rest = self._rest, EMPTY
        if not window and self._pull is not None:
            window = memoryview(self._pull())
            if not window:
                self._pull = None
        return window

    def _join(self, size: int) -> None:
        """Joins the rest of the window, and as much of the next ones, into a window of `size`."""
        if not self._rest and self._pull is None:
            return
        joined = bytearray(self._window[self._at :])
        self._base += self._at
        while (missing := size - len(joined)) and (window := self._following()):
            joined += window[:missing]
            self._rest = window[missing:]
        self._window = memoryview(joined)
        self._at = 0


class PieceDecoder:
    """A decoder of the pieces that a codec yields."""

    __slots__ = ("_damage", "_left", "_pieces")

    def __init__(self, pieces: Iterator[Buffer]) -> None:
        self._pieces = pieces
        self._left = EMPTY  # of the current piece
        self._damage: tuple[str, int, int | None] | None = None

    def read_into(self, target: memoryview) -> int:
        filled, size = 0, len(target)
        while filled < size:
            left = self._left
            if not left:
                piece = self._next(filled)
                if piece is None:
                    break
                left = memoryview(piece)
            part = min(len(left), size - filled)
            target[filled : filled + part] = left[:part]
            self._left = left[part:]
            filled += part
        return filled

    def _next(self, filled: int) -> Buffer | None:
        """The next piece. None at the end, or at damage, which is raised after the `filled` bytes
        before it have been returned."""
        if self._damage is None:
            try:
                return next(self._pieces, None)
            except CorruptRecordsError as damage:
                # Not the error itself: its traceback would keep the window alive.
                self._damage = damage.reason, damage.position, damage.inside
        if filled:
            return None
        reason, position, inside = self._damage
        raise CorruptRecordsError(reason, position, inside=inside)


def whole(data: Buffer, codec: str) -> Windows:
    """Complete data in one window."""
    return Windows(None, codec, data)


def gather(pieces: Iterator[Buffer], limit: int) -> bytes | None:
    """All pieces, joined; None as soon as they are more than `limit` bytes."""
    parts = []
    for piece in pieces:
        limit -= len(piece)
        if limit < 0:
            return None
        parts.append(bytes(piece))
    return b"".join(parts)
