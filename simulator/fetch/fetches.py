"""Fetches: the ranges of a log that are read one after the other, cut as by a broker."""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from records import Codec, CorruptRecordsError, FileRecords


class Fetch(NamedTuple):
    """A range of whole batches, and the first offset that the consumer wants."""

    file: int  # its index among the files
    position: int  # of the first batch, in the file
    size: int  # bytes
    first_offset: int


class BatchIndex:
    """The positions of a file's batches, from their headers.

    `damage`: the error at which reading headers ended early, if any. Batches before it are good."""

    def __init__(self, records: FileRecords) -> None:
        self._positions = array("q")  # of each batch, and the end of the last
        self._last_offsets = array("q")
        self.damage: CorruptRecordsError | None = None
        self.is_compressed = False  # whether any batch is compressed
        end = 0
        try:
            for header in records.batches():
                self._positions.append(header.position)
                self._last_offsets.append(header.last_offset)
                self.is_compressed |= header.codec is not Codec.NONE
                end = header.position + header.size
        except CorruptRecordsError as error:
            self.damage = error
        self._positions.append(end)

    def __len__(self) -> int:
        return len(self._last_offsets)

    @property
    def size(self) -> int:
        """Bytes of all whole batches."""
        return self._positions[-1]

    def cut(self, batch: int, max_bytes: int) -> int:
        """The end of a fetch that begins with this batch. It has as many batches as fit, and at
        least one."""
        end = bisect_right(self._positions, self._positions[batch] + max_bytes) - 1
        return max(end, batch + 1)

    def end_before(self, position: int) -> None:
        """Removes the batch with the byte at this position, and all batches after it."""
        batch = bisect_right(self._positions, position) - 1
        del self._last_offsets[batch:], self._positions[batch + 1 :]

    def last_offset(self, batch: int) -> int:
        return self._last_offsets[batch]

    def at_offset(self, offset: int, batch: int) -> int:
        """The first batch from this one on whose last offset is not below `offset`."""
        return bisect_left(self._last_offsets, offset, lo=batch)

    def fetch(self, file: int, batch: int, end: int, first_offset: int) -> Fetch:
        position = self._positions[batch]
        return Fetch(file, position, self._positions[end] - position, first_offset)
