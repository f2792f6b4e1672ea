"""The decompressed bytes of one batch, a window at a time.

A small batch is decompressed in one go; of a larger one only a window is in memory, whatever it
expands to. The window moves forward only. A record that is larger than the window is read through
cursors (large.py), which decompress the batch again, each from its beginning and once.

Not here: the codecs (records.codecs), what is done with the bytes (converter.py)."""

from collections.abc import Callable

from records.codecs import Decoder
from records.errors import CorruptRecordsError
from records.kernel import UNKNOWN, Buffer

Opener = Callable[[], Decoder]


class Body:
    """`source[start:filled]` is what has been decompressed and not been consumed."""

    __slots__ = (
        "_decoder",
        "_ended",
        "_open",
        "base",
        "filled",
        "position",
        "source",
        "start",
        "view",
    )

    def __init__(
        self, source: Buffer, filled: int, opener: Opener, position: int, *, whole: bool
    ) -> None:
        """`source`: the bytes, if `whole`, else an empty window. `opener` gives a decoder at the
        beginning; `position` is the batch's in the file, for errors."""
        self.source = source
        self.view = memoryview(source)
        self.start = 0
        self.filled = filled
        self.base = 0  # of the window, in the decompressed bytes
        self.position = position
        self._open = opener
        self._ended = whole
        self._decoder: Decoder | None = None

    @property
    def remaining(self) -> int:
        """Bytes from `start` to the end of the decompressed data, or UNKNOWN."""
        return self.filled - self.start if self._ended else UNKNOWN

    @property
    def is_full(self) -> bool:
        """Whether more can only be had by consuming some."""
        return self.start == 0 and self.filled == len(self.view)

    def fill(self) -> None:
        """Moves what is left to the front and decompresses until the window is full or the data
        ends."""
        left = self.filled - self.start
        self.source[:left] = self.source[self.start : self.filled]  # type: ignore[index]
        self.base += self.start
        self.start, self.filled = 0, left
        while self.filled < len(self.view) and not self._ended:
            count = self.decode_into(self.view[self.filled :])
            self.filled += count
            self._ended = count == 0

    def decode_into(self, target: memoryview) -> int:
        """The next bytes behind the window; 0 at the end."""
        if self._decoder is None:
            self._decoder = self._open()
        return decode(self._decoder, target, self.position)

    def skip_to(self, position: int) -> None:
        """Goes on at this position of the decompressed data, which may be behind the window."""
        ahead = position - self.base
        if ahead <= self.filled:
            self.start = ahead
            return
        skip = ahead - self.filled
        self.base, self.start, self.filled = position, 0, 0
        while skip:
            count = self.decode_into(self.view[: min(skip, len(self.view))])
            if count == 0:
                raise CorruptRecordsError("record runs past its batch", self.position)
            skip -= count

    def has_more(self) -> bool:
        """Whether there are bytes behind what has been consumed."""
        if self.start == self.filled and not self._ended:
            self.fill()
        return self.start < self.filled

    def opened_again(self) -> Decoder:
        """Another decoder, at the beginning."""
        return self._open()

    def damage(self, reason: str, index: int) -> CorruptRecordsError:
        """The error for damage at an index of the window."""
        return CorruptRecordsError(reason, self.position, inside=self.base + index)


def decode(decoder: Decoder, target: memoryview, position: int) -> int:
    """`decoder.read_into(target)`, with the position of the batch in errors."""
    try:
        return decoder.read_into(target)
    except CorruptRecordsError as error:
        raise CorruptRecordsError(error.reason, position) from error
