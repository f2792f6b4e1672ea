"""The last stable offset and the aborted transactions, for read_committed.

Transaction indexes list the aborted transactions. If they are missing, control batches give the
same result, but all headers of the partition have to be read.

Not here: leaving batches out (rows.py, batches.py)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from downconvert.storage import Log
from downconvert.storage.errors import CorruptFileError, CorruptIndexError
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.names import OFFSET_MAX, Kind, file_name
from downconvert.storage.producers.producer_state import ProducerState, read_snapshot
from records import CorruptRecordsError

from .outcomes import followed
from .segment_files import PartitionLog, SegmentFile
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


def committed_of(log: PartitionLog, cleaned: Callable[[SegmentFile], int]) -> Committed:
    """The committed part of a partition's log. Transactions that were aborted in one copy count as
    aborted in others too. `cleaned`: how far a cleaner has cleaned a copy of the log.

    FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
    known: dict[tuple[int, int], AbortedTransaction] = {}  # an index wins
    undecided: list[int] = []
    open_: list[ProducerState] = []
    for copy in (log, *(other for other in log.others if not other.is_tier)):
        stable, found, is_decided, producers = _indexed(copy)
        open_ += producers
        end = copy.segments[-1].next_offset if copy.segments and copy is not log else OFFSET_MAX
        known = {_key(one): one for one in found if one.last_offset < end} | known
        undecided += [] if is_decided else [stable]
    after: list[AbortedTransaction] = []
    if undecided:
        more, after = followed(log, min(undecided), cleaned, open_)
        known = {_key(one): one for one in more} | known
    end = min((max(log.start_offset, one.first_offset) for one in after), default=OFFSET_MAX)
    ranked = sorted(known.values(), key=lambda one: (one.first_offset, one.last_offset))
    return Committed(end, tuple(ranked), tuple(after))


def _key(one: AbortedTransaction) -> tuple[int, int]:
    return one.producer_id, one.last_offset


class _Indexed(NamedTuple):
    """The result by indexes and snapshots of one copy: the offset up to which all transactions have
    ended, those that were aborted, whether all have ended up to the end of the log, and the
    producers whose transactions are open there."""

    stable: int = 0
    aborted: Sequence[AbortedTransaction] = ()
    is_decided: bool = False
    open: Sequence[ProducerState] = ()


def _indexed(log: PartitionLog) -> _Indexed:
    """The result for one copy.

    If it is not mounted, its last segment is copied to this machine. Without a snapshot of the
    producers to start from, all segments are copied."""
    if not log.is_mounted and any(one.is_clipped for one in log.segments):
        return _Indexed()  # files of two copies overlap
    last = last_with_records(log.segments)
    if not log.is_mounted and not _has_snapshot(log, last):
        last = [file.base_offset for file in log.segments]
    with (
        staged(log, last) as directory,
        Log.open(directory) as found,
        suppress(CorruptIndexError, CorruptRecordsError),
    ):
        open_ = [one for one in found.producers() if one.transaction_start >= 0]
        if not _has_indexes(found):
            return _Indexed(open=open_)
        end = found.end_offset
        aborted = [one for segment in found.segments for one in segment.aborted()]
        known = set(map(_key, aborted))
        late = [
            one.first_offset
            for one in found.aborted(found.start_offset, end)
            if _key(one) not in known
        ]
        stable = min((*(one.transaction_start for one in open_), *late), default=end)
        goes_further = any(end < one.next_offset < OFFSET_MAX for one in log.segments[-1:])
        sound = found.damage is None and is_sound(found)
        is_decided = stable == end and sound and not goes_further
        return _Indexed(stable if sound else 0, aborted, is_decided, open_)
    return _Indexed()


def _has_snapshot(log: PartitionLog, bases: Sequence[int]) -> bool:
    """Whether one of these segments has a sound snapshot of producers. StoreError."""
    names = {file_name(base, Kind.SNAPSHOT) for base in bases}
    sides = tuple(side for side in log.sides if side[0] in names)
    files = tuple(one for one in log.segments if one.base_offset in bases and not one.blobs)
    with staged(replace(log, segments=files, sides=sides), ()) as directory:
        return any(_is_sound_snapshot(directory / name) for name in names)


def _is_sound_snapshot(path: Path) -> bool:
    """Whether a snapshot of producers is there and can be read."""
    with suppress(CorruptFileError, FileNotFoundError):
        read_snapshot(path)
        return True
    return False


def is_sound(log: Log) -> bool:
    """Whether headers lead to the end of each segment after the last snapshot of producers, and
    from each segment to the next one. Behind damage and behind a gap, transactions were not
    followed."""
    following = log.end_offset
    for segment in reversed(log.segments):
        reached = segment.base_offset
        try:
            for header in segment.slice(0, log.end_of(segment)).batches():
                reached = header.last_offset + 1
        except CorruptRecordsError:
            return False
        if reached < following:
            return False
        if _is_sound_snapshot(segment.path(Kind.SNAPSHOT)):
            break
        following = segment.base_offset
    return True


def _has_indexes(log: Log) -> bool:
    """Whether each segment has the files that a broker writes beside it. Then a segment without a
    transaction index has no aborted transactions."""
    return all(
        segment.path(Kind.OFFSET_INDEX).exists() or segment.path(Kind.TRANSACTION_INDEX).exists()
        for segment in log.segments
    )
