"""Remembers positions in a segment without an offset index, such as a lone copy of a log file.

To find an offset, such a file is scanned header by header from its beginning. Scans note positions
at intervals, and later scans begin there. For a consumer that reads through a segment, each header
is then read once. Without positions, each fetch would read all earlier headers.

Not here: the index that a broker keeps (offset_index.py), the choice between them (segment.py)."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from records import BatchHeader, FileRecords
from records.files.file_records import SharedFile
from records.units import KiB

INTERVAL: Final = 64 * KiB  # bytes of the log between two positions, at first
POSITIONS_MAX: Final = 1024  # of 16 bytes each. With more, every other one is removed.


class ScannedPositions:
    """Positions in one open file where batches begin. A scan from such a position gives the same
    result as one from the beginning, even if offsets decrease. Only one thread may use it at a
    time."""

    __slots__ = ("_below", "_interval", "_positions", "file")

    def __init__(self, file: SharedFile) -> None:
        self.file = file
        self._interval = INTERVAL
        self._positions = array("q", (0,))  # rising
        self._below = array("q", (-1,))  # the highest offset before each position

    def __len__(self) -> int:
        return len(self._positions)

    def scan(self, offset: int, end: int) -> tuple[FileRecords, Iterator[BatchHeader]]:
        """The range up to `end`, from the last position with only lower offsets before it, and its
        headers."""
        place = bisect_left(self._below, offset) - 1
        place = max(0, min(place, bisect_left(self._positions, end) - 1))
        position = self._positions[place]
        records = FileRecords(self.file, position, max(0, end - position))
        return records, self._noting(records, self._below[place])

    def _noting(self, records: FileRecords, below: int) -> Iterator[BatchHeader]:
        """Yields the headers of `records` and notes positions. below: the highest offset before
        them."""
        for header in records.batches():
            position = records.origin + header.position
            if position - self._positions[-1] >= self._interval:
                self._note(position, below)
            yield header
            below = max(below, header.last_offset)

    def _note(self, position: int, below: int) -> None:
        self._positions.append(position)
        self._below.append(below)
        if len(self._positions) > POSITIONS_MAX:
            self._interval *= 2
            del self._positions[1::2], self._below[1::2]
