"""Where a segment without an offset index was scanned before: a copy of a log file alone, say.

To find an offset such a file is scanned header by header from its beginning. What a scan has gone
past is noted now and then, so that the next one begins there: a consumer that goes through a
segment reads each header once, and not all of those before it at each fetch.

Not here: the index that a broker keeps (offset_index.py), which of them is asked (segment.py)."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from records import BatchHeader, FileRecords
from records.files.file_records import SharedFile
from records.units import KiB

INTERVAL: Final = 64 * KiB  # bytes of a log between two places, at first
PLACES_MAX: Final = 1024  # of a segment, 16 bytes each: with more every other one is forgotten


class ScannedPositions:
    """Places of one open file at which batches begin. They say no more than a scan from the
    beginning does, also where offsets fall. For one thread at a time."""

    __slots__ = ("_below", "_interval", "_positions", "file")

    def __init__(self, file: SharedFile) -> None:
        self.file = file
        self._interval = INTERVAL
        self._positions = array("q", (0,))  # rising
        self._below = array("q", (-1,))  # for each, the highest offset before it

    def __len__(self) -> int:
        return len(self._positions)

    def scan(self, offset: int, end: int) -> tuple[FileRecords, Iterator[BatchHeader]]:
        """The range up to `end` from the last place that has nothing at or after `offset` before
        it, and its headers."""
        place = bisect_left(self._below, offset) - 1
        place = max(0, min(place, bisect_left(self._positions, end) - 1))
        position = self._positions[place]
        records = FileRecords(self.file, position, max(0, end - position))
        return records, self._noting(records, self._below[place])

    def _noting(self, records: FileRecords, below: int) -> Iterator[BatchHeader]:
        """The headers of `records`; notes what is passed. below: the highest offset before it."""
        for header in records.batches():
            position = records.origin + header.position
            if position - self._positions[-1] >= self._interval:
                self._note(position, below)
            yield header
            below = max(below, header.last_offset)

    def _note(self, position: int, below: int) -> None:
        self._positions.append(position)
        self._below.append(below)
        if len(self._positions) > PLACES_MAX:
            self._interval *= 2
            del self._positions[1::2], self._below[1::2]
