"""Converts the items that the kernel leaves to Python: compressed entries and large items.

This class owns the window over the log and the output. Both hold buffers from the first item until
`release`.

Not here: choosing these items (converter.py)."""

from downconvert.conversion.engine import LARGE_CHUNK_SIZE
from downconvert.conversion.request import Request
from downconvert.conversion.stats import Counts
from records.files.source import Records
from records.kernel import Transcoder
from records.steps import Steps

from .compressed import CompressedEntries, CompressedEntry
from .output import Output
from .oversize import Oversize
from .window import LogWindow


class Streamed:
    """Converts items of one range of records. A piece of n bytes is `ready[:n]` until the next one
    is requested. Generators yield the sizes of pieces, 0 if a step made none."""

    __slots__ = ("_compressed", "_output", "_oversize", "_window")

    def __init__(self, records: Records, request: Request, transcoder: Transcoder) -> None:
        size = request.policy.chunk_size
        self._window = LogWindow(records, size * 2 if size < LARGE_CHUNK_SIZE else size)
        # A message has 26 or 34 bytes besides key and value, a record at least 7. This size fits
        # nearly every chunk.
        self._output = Output(2 * size)
        shared = request, self._window, self._output, transcoder
        self._oversize = Oversize(*shared)
        self._compressed = CompressedEntries(*shared)

    def large(self, position: int, end: int, *, is_measuring: bool) -> Steps[None]:
        """Converts the item at `position` of a range that ends at `end`. Raises CorruptRecordsError
        if the file became shorter: the item is then not large."""
        self._output.open(is_measuring=is_measuring)
        self._window.read(position)
        self._window.check_whole()
        return self._oversize.convert(end - position)

    def compressed(
        self, position: int, entry: CompressedEntry, *, is_measuring: bool
    ) -> Steps[None]:
        """Converts the compressed entry at `position`."""
        self._output.open(is_measuring=is_measuring)
        self._window.read(position, entry.size)
        return self._compressed.convert(entry)

    @property
    def position(self) -> int:
        """The position after the last item, or the position of the item in progress."""
        return self._window.position

    @property
    def ready(self) -> memoryview:
        """Bytes that begin with the current piece."""
        return self._output.ready

    @property
    def decompressed(self) -> int:
        """Bytes decompressed a window at a time. Bytes decompressed twice count twice."""
        return self._compressed.decompressed

    @property
    def counts(self) -> Counts:
        """The counts that the kernel does not have. The bytes are those of the item in progress."""
        messages = self._oversize.messages
        return Counts(messages, messages, self._window.item_size, self._output.temporary_bytes)

    @property
    def held_bytes(self) -> int:
        """The size of the buffers that are held now."""
        return self._window.held_bytes + self._output.held_bytes + self._compressed.held_bytes

    def release(self) -> None:
        """Releases the buffers, after all ready bytes have been taken."""
        self._window.release()
        self._output.release()
        self._compressed.release()
