"""The last stable offset and the aborted transactions, for read_committed.

Transaction indexes list the aborted transactions. If they are missing, control batches give the
same result, but all headers of the partition have to be read.

Not here: leaving batches out (rows.py, batches.py)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from downconvert.storage import Log
from downconvert.storage.errors import CorruptIndexError
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.names import OFFSET_MAX, Kind, file_name, parse_file_name
from downconvert.storage.producers.producer_state import ProducerState
from downconvert.storage.producers.producers import Producers
from records import CorruptRecordsError

from .segment_files import PartitionLog
from .staging import last_with_records, staged


@dataclass(frozen=True, slots=True)
class Committed:
    """The committed part of a log. `end`: the last stable offset. `aborted`: aborted transactions,
    in the order of their first offsets. `open`: transactions without an end, as if they were
    aborted at the end of the log."""

    end: int
    aborted: tuple[AbortedTransaction, ...] = ()
    open: tuple[AbortedTransaction, ...] = ()

    def throughout(self) -> "Committed":
        """The same up to the end of the log, ignoring open transactions: records after these stay
        visible, as they do for a group coordinator."""
        return Committed(OFFSET_MAX, (*self.aborted, *self.open))

    def between(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records from offset `start` up to `end`."""
        return tuple(
            entry
            for entry in self.aborted
            if entry.last_offset >= start and entry.first_offset < end
        )


def committed_of(log: PartitionLog) -> Committed:
    """The committed part of a partition's log. Transactions that were aborted here count as aborted
    in other copies too."""
    found = _committed_of(log)
    for other in log.others:
        end = other.segments[-1].next_offset
        aborted = [one for one in _committed_of(other).aborted if one.last_offset < end]
        known = {*found.aborted, *aborted}
        if len(known) > len(found.aborted):
            ranked = sorted(known, key=lambda one: (one.first_offset, one.last_offset))
            found = replace(found, aborted=tuple(ranked))
    return found


def _committed_of(log: PartitionLog) -> Committed:
    """The committed part of one copy.

    If it is not mounted, its last segment is copied to this machine. Without a snapshot of the
    producers to start from, all segments are copied."""
    last = last_with_records(log.segments)
    snapshots = {parse_file_name(name) for name, _ in log.sides}
    has_snapshot = any(found is not None and found.offset in last for found in snapshots)
    for file in log.segments:
        if file.base_offset in last and not file.blobs:
            snapshot = Path(file.directory) / file_name(file.base_offset, Kind.SNAPSHOT)
            has_snapshot = has_snapshot or snapshot.exists()
    if not log.is_mounted and not has_snapshot:
        last = [file.base_offset for file in log.segments]
    with staged(log, last) as directory:
        return committed(str(directory))


def committed(directory: str) -> Committed:
    """The committed part of the log in a partition's directory, as it is now."""
    with Log.open(Path(directory)) as log:
        end = log.end_offset
        if _has_indexes(log):
            try:
                aborted = log.aborted(log.start_offset, end)
                stable = log.last_stable_offset
                return Committed(stable, tuple(aborted), _open(log.producers()))
            except (CorruptIndexError, CorruptRecordsError):
                pass
        return rebuilt(log, end)


def rebuilt(log: Log, end: int) -> Committed:
    """The committed part of a log, from its batches alone."""
    producers = Producers(log.path)
    producers.advance(end, log.segments, log.end_of, [])
    first_open = producers.states.first_open_offset
    stable = end if first_open is None else min(end, max(log.start_offset, first_open))
    aborted = sorted(producers.aborted, key=lambda entry: (entry.first_offset, entry.last_offset))
    return Committed(stable, tuple(aborted), _open(producers.states.producers.values()))


def _open(producers: Iterable[ProducerState]) -> tuple[AbortedTransaction, ...]:
    starts = sorted((s.transaction_start, s.producer_id) for s in producers)
    return tuple(
        AbortedTransaction(producer_id, start, OFFSET_MAX, start)
        for start, producer_id in starts
        if start >= 0
    )


def _has_indexes(log: Log) -> bool:
    """Whether each segment has the files that a broker writes beside it. Then a segment without a
    transaction index has no aborted transactions."""
    return all(
        segment.path(Kind.OFFSET_INDEX).exists() or segment.path(Kind.TRANSACTION_INDEX).exists()
        for segment in log.segments
    )
