"""The decompressed bytes of one batch, a window at a time.

A small batch is decompressed all at once. Only a window of a larger one is in memory, however far
it expands. The window moves forward only. A record larger than the window is read through cursors
(large.py). Each cursor decompresses the batch once more, from its beginning.

Not here: how a batch is opened (records.batches.compressed), converting the bytes
(body_converter.py)."""

from typing import Final

from records.batches.compressed import (
    RUNS_PAST,
    STEP_SIZE,
    CompressedBytes,
    Decompressed,
    DecompressedWindow,
)
from records.errors import CorruptRecordsError
from records.kernel import Buffer
from records.steps import Steps

_SCRATCH_SIZE: Final = 4096  # bytes, for skipped data


class DecompressedBody(DecompressedWindow):
    """A window over a batch's records, which can also be read again."""

    __slots__ = ("_chunk_size", "_compressed", "_replays")

    def __init__(
        self, compressed: CompressedBytes, buffer: Buffer, chunk_size: int, *, whole: bool
    ) -> None:
        """`buffer`: the decompressed bytes if `whole`, else an empty window. `chunk_size`: bytes
        of compressed data read at a time."""
        self._compressed = compressed
        self._chunk_size = chunk_size
        self._replays: dict[str, Replay] = {}
        super().__init__(None if whole else self._open(), buffer, compressed.error_position)

    @property
    def decompressed(self) -> int:
        """Bytes decompressed so far. Bytes decompressed twice count twice."""
        replayed = sum(each.position for each in self._replays.values())
        return self.base + self.filled + replayed

    def _open(self) -> Decompressed:
        size = min(self._chunk_size, self._compressed.size)
        return self._compressed.open(memoryview(bytearray(size)))

    def replay(self, purpose: str, position: int) -> Steps["Replay"]:
        """Decompresses the batch once more and returns the bytes from a position on. Yields 0 after
        each step on the way there. The positions of one purpose only increase, so each purpose
        needs one decoder."""
        replay = self._replays.get(purpose)
        if replay is None:
            replay = self._replays[purpose] = Replay(self._open(), self.position)
        while position - replay.position > STEP_SIZE:
            replay.skip(STEP_SIZE)
            yield 0
        replay.skip(position - replay.position)
        return replay


def ended(position: int) -> CorruptRecordsError:
    """The error for decompressed bytes that end too early."""
    return CorruptRecordsError(RUNS_PAST, position)


class Replay:
    """A batch decompressed once more, for bytes that its window has already passed."""

    def __init__(self, decompressed: Decompressed, position: int) -> None:
        """`position`: the batch's position in the file, for errors."""
        self._decompressed = decompressed
        self._batch = position
        self._scratch = memoryview(bytearray(_SCRATCH_SIZE))
        self.position = 0

    def read_into(self, target: memoryview) -> int:
        count = self._decompressed.read_into(target)
        if count == 0:
            raise ended(self._batch)
        self.position += count
        return count

    def skip(self, size: int) -> None:
        while size:
            size -= self.read_into(self._scratch[: min(size, len(self._scratch))])
