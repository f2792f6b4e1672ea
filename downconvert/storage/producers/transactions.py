"""Finds the batches of a log that belong to aborted transactions.

The transaction indexes list aborted transactions. After a crash they may lack those since the last
snapshot of the producers' states. These are found by following the batches (producers.py).

Not here: leaving the records out (log.py)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.segments.segments import Segments
from records import BatchHeader


def aborted_between(
    start: int, end: int, segments: Segments, others: Iterable[AbortedTransaction]
) -> list[AbortedTransaction]:
    """The aborted transactions with records from offset `start` up to `end`, by their beginnings.

    `others`: transactions that the indexes may lack."""
    found = {
        entry
        for entry in (*_indexed(start, end, segments), *others)
        if entry.last_offset >= start and entry.first_offset < end
    }
    return sorted(found, key=lambda entry: (entry.first_offset, entry.last_offset))


def _indexed(start: int, end: int, segments: Segments) -> Iterator[AbortedTransaction]:
    for segment in segments.starting_at(start):
        for entry in segment.aborted():
            yield entry
            if entry.last_stable_offset >= end:  # later entries are of later transactions
                return


class AbortedRanges:
    """Finds batches of aborted transactions. Callers pass batches in the log's order."""

    __slots__ = ("_ranges",)

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # By producer, without the epoch: since 4.0 a marker's epoch is one above the data's.
        self._ranges: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for entry in aborted:
            self._ranges[entry.producer_id].append((entry.first_offset, entry.last_offset))

    def cover(self, header: BatchHeader) -> bool:
        """Whether this batch belongs to an aborted transaction."""
        if not header.is_transactional or header.producer_id not in self._ranges:
            return False
        ranges = self._ranges[header.producer_id]
        while ranges and ranges[0][1] < header.base_offset:
            ranges.pop(0)
        return bool(ranges) and ranges[0][0] <= header.base_offset
