"""The decompressed bytes of one batch, a window at a time.

A small batch is decompressed in one go; of a larger one only a window is in memory, whatever it
expands to. The window moves forward only. A record that is larger than the window is read through
cursors (large.py), which decompress the batch again, each from its beginning and once.

Not here: the codecs (records.codecs), what is done with the bytes (converter.py)."""

from collections.abc import Callable
from typing import Final

from records.codecs import Decoder
from records.errors import CorruptRecordsError
from records.kernel import UNKNOWN, Buffer

_SCRATCH_SIZE: Final = 4096  # for what is gone over

Opener = Callable[[], Decoder]


class Body:
    """`source[start:filled]` is what has been decompressed and not been consumed."""

    __slots__ = (
        "_decoder",
        "_ended",
        "_open",
        "_replays",
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
        self._replays: dict[str, Replay] = {}

    @property
    def remaining(self) -> int:
        """Bytes from `start` to the end of the decompressed data, or UNKNOWN."""
        return self.filled - self.start if self._ended else UNKNOWN

    @property
    def is_whole(self) -> bool:
        """Whether all of it has been decompressed."""
        return self._ended

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

    def replay(self, purpose: str, position: int) -> "Replay":
        """The decompressed bytes from a position on, once more. Who has one purpose goes forward
        only, and so needs one decoder, however often it asks."""
        replay = self._replays.get(purpose)
        if replay is None:
            replay = self._replays[purpose] = Replay(self._open(), self.position)
        replay.skip(position - replay.position)
        return replay

    def damage(self, reason: str, index: int) -> CorruptRecordsError:
        """The error for damage at an index of the window."""
        return CorruptRecordsError(reason, self.position, inside=self.base + index)


def ended(position: int) -> CorruptRecordsError:
    """The error for bytes that end too early."""
    return CorruptRecordsError("record runs past its batch", position)


class Replay:
    """A batch decompressed once more, for the bytes that its window has left behind."""

    def __init__(self, decoder: Decoder, position: int) -> None:
        """`position`: the batch's in the file, for errors."""
        self._decoder = decoder
        self._batch = position
        self._scratch = memoryview(bytearray(_SCRATCH_SIZE))
        self.position = 0

    def read_into(self, target: memoryview) -> int:
        count = decode(self._decoder, target, self._batch)
        if count == 0:
            raise ended(self._batch)
        self.position += count
        return count

    def skip(self, size: int) -> None:
        while size:
            size -= self.read_into(self._scratch[: min(size, len(self._scratch))])


def decode(decoder: Decoder, target: memoryview, position: int) -> int:
    """`decoder.read_into(target)`, with the position of the batch in errors."""
    try:
        return decoder.read_into(target)
    except CorruptRecordsError as error:
        raise CorruptRecordsError(error.reason, position) from error
