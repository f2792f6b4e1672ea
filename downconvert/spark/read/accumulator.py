"""Bytes, and the rows that point into them, until they are added to columns.

One buffer has the bytes, as they are in the log or as they were decompressed, and the rows of many
batches point into it. When the buffer or the rows are full, they go to the columns, so that a task
needs the same few megabytes whatever it reads. Only a record that is larger than the buffer makes
it grow: as its bytes are read, and up to a limit.

Not here: what is in a row (records/kernel.py), columns (gather.py)."""

from collections.abc import Iterator
from typing import Any, Final

from records import CorruptRecordsError
from records.kernel import ROW_SIZE, Buffer, Outcome, Transcoder

from .gather import ROWS_MAX, Gatherer

BUFFER_SIZE: Final = 1024 * 1024  # bytes; small enough to stay in the processor's cache


class Accumulator:
    """`buffer[:used]` is what rows point into; `rows[:rows_size]` are the rows."""

    def __init__(self, gatherer: Gatherer, record_bytes_max: int) -> None:
        self._gatherer = gatherer
        self._record_bytes_max = record_bytes_max
        self.buffer = bytearray(BUFFER_SIZE)
        self.view = memoryview(self.buffer)
        self.used = 0
        self.rows = bytearray(ROWS_MAX * ROW_SIZE)
        self.rows_size = 0

    def columns(
        self, transcoder: Transcoder, source: Buffer, start: int, end: int, remaining: int
    ) -> tuple[int, int, Outcome]:
        """Adds the rows of what is in `source[start:end]`, as many as fit: see `Transcoder`.

        Returns the bytes consumed, the bytes of rows, and why it ended."""
        consumed, produced, outcome = transcoder.columns(
            source, start, end, remaining, self.rows, self.rows_size, len(self.rows)
        )
        self.rows_size += produced
        return consumed, produced, Outcome(outcome)

    def flush(self, source: Buffer | None = None) -> Iterator[Any]:
        """Adds the rows to the columns, if there are any. Nothing points into the buffer any more.

        Yields record batches as they fill up. `source`: what rows point into, where that is not the
        buffer."""
        if self.rows_size:
            rows = memoryview(self.rows)[: self.rows_size]
            yield from self._gatherer.add(rows, self.buffer if source is None else source)
            self.rows_size = 0

    def clear(self) -> None:
        """Takes the buffer from its beginning again, and as large as it was at first."""
        self.used = 0
        if len(self.buffer) > BUFFER_SIZE:
            self.buffer = bytearray(BUFFER_SIZE)
            self.view = memoryview(self.buffer)

    def grow(self, position: int) -> None:
        """Makes room for a record that is larger than the whole buffer."""
        self.check_growth(len(self.buffer), position)
        self.view = memoryview(b"")
        self.buffer = bytearray(2 * len(self.buffer))
        self.view = memoryview(self.buffer)

    def check_growth(self, size: int, position: int) -> None:
        """CorruptRecordsError where a record is not whole in `size` bytes, and `size` is the
        limit."""
        if size >= self._record_bytes_max:
            raise CorruptRecordsError(
                f"a record is larger than {self._record_bytes_max} bytes, which the option "
                "maxRecordBytes allows",
                position,
            )
