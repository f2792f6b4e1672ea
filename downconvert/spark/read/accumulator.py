"""Buffers bytes, and the rows that point into them, until they are added to columns.

One buffer holds bytes from the log or decompressed bytes, and the rows of many batches point into
it. When the buffer or the rows are full, the rows are added to columns, so a task needs the same
few megabytes for any log. Only a record larger than the buffer makes it grow, as its bytes are
read, up to a limit.

Not here: the contents of a row (records/kernel.py), columns (gather.py)."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from downconvert.spark.plan.gather import ROWS_MAX, Gatherer
from records import CorruptRecordsError
from records.kernel import ROW_SIZE, Buffer, Outcome, Transcoder

BUFFER_SIZE: Final = 1024 * 1024  # bytes; small enough to stay in the processor's cache


class Accumulator:
    """Rows point into `buffer[:used]`. `rows[:rows_size]` are the rows."""

    def __init__(self, gatherer: Gatherer, record_bytes_max: int) -> None:
        self._gatherer = gatherer
        self._record_bytes_max = record_bytes_max
        self.buffer = _memory(BUFFER_SIZE)
        self.used = 0
        self.rows = _memory(ROWS_MAX * ROW_SIZE)
        self.rows_size = 0

    def columns(
        self, transcoder: Transcoder, source: Buffer, start: int, end: int, remaining: int
    ) -> tuple[int, int, Outcome]:
        """Adds as many rows of `source[start:end]` as fit: see `Transcoder`.

        Returns the bytes consumed, the bytes of rows, and the reason for the end."""
        consumed, produced, outcome = transcoder.columns(
            source, start, end, remaining, self.rows, self.rows_size, len(self.rows)
        )
        self.rows_size += produced
        return consumed, produced, Outcome(outcome)

    def flush(self, source: Buffer | None = None) -> Iterator[Any]:
        """Adds the rows, if any, to the columns. Afterwards no row points into the buffer.

        Yields record batches as they fill up. `source`: the bytes that rows point into, if not the
        buffer."""
        if self.rows_size:
            rows = self.rows[: self.rows_size]
            yield from self._gatherer.add(rows, self.buffer if source is None else source)
            self.rows_size = 0

    def clear(self) -> None:
        """Empties the buffer, and shrinks it to its first size."""
        self.used = 0
        if len(self.buffer) > BUFFER_SIZE:
            self.buffer = _memory(BUFFER_SIZE)

    def grow(self, position: int) -> None:
        """Makes room for a record that is larger than the whole buffer."""
        size = len(self.buffer)
        self.check_growth(size, position)
        self.buffer = memoryview(b"")  # released before a larger one is allocated
        self.buffer = _memory(2 * size)

    def check_growth(self, size: int, position: int) -> None:
        """CorruptRecordsError: a record is incomplete in `size` bytes, and `size` is the limit."""
        if size >= self._record_bytes_max:
            raise CorruptRecordsError(
                f"a record is larger than {self._record_bytes_max} bytes, which the option "
                "maxRecordBytes allows",
                position,
            )


def _memory(size: int) -> memoryview:
    """Writable memory. Pages that a small segment leaves unused are never touched."""
    return np.empty(size, np.uint8).data
