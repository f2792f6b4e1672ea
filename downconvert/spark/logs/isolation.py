"""The last stable offset and the aborted transactions, for read_committed.

As for a consumer, a transaction is open until its marker is below the high watermark, because a
leader that restarts may truncate the marker.

Transaction indexes list the aborted transactions. If they are missing, control batches give the
same result, but all headers of the partition have to be read.

Not here: leaving batches out (rows.py, batches.py)."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.errors import CorruptFileError, CorruptIndexError
from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.names import OFFSET_MAX, Kind, State
from downconvert.storage.producers.producer_state import (
    ProducerState,
    ProducerStates,
    read_marker,
    read_snapshot,
)
from downconvert.storage.segments.rising import counted, in_order
from downconvert.storage.segments.segment import Segment
from records import BatchHeader, CorruptRecordsError
from records.batches.control import EndTransactionMarker

from .completeness import is_damaged_after, is_last
from .opening import opened
from .outcomes import followed
from .segment_files import PartitionLog, SegmentFile
from .splits import whole_file
from .staging import staged
from .union import up_to
from .whole_log import known_end


@dataclass(frozen=True, slots=True)
class Committed:
    """The committed part of a log. `end`: the last stable offset. `aborted`: aborted transactions,
    in the order of their first offsets. `open`: transactions without an end, as if they were
    aborted at the end of the log."""

    end: int
    aborted: tuple[AbortedTransaction, ...] = ()
    open: tuple[AbortedTransaction, ...] = ()

    def throughout(self) -> "Committed":
        """The same up to the end of the log. Only the records of open transactions are left out,
        and not all records after them, as a group coordinator reads its topic."""
        return Committed(OFFSET_MAX, (*self.aborted, *self.open))

    def between(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records from offset `start` up to `end`."""
        return tuple(
            entry
            for entry in self.aborted
            if entry.last_offset >= start and entry.first_offset < end
        )


def committed_of(log: PartitionLog, limit: int = OFFSET_MAX) -> Committed:
    """The committed part of a partition's log. Transactions that were aborted in one copy count as
    aborted in others too. `limit`: the high watermark, if nothing after it is read.

    FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
    log = _limited(log, limit)
    known: dict[tuple[int, int], AbortedTransaction] = {}  # an index wins
    undecided: list[int] = []
    open_: list[ProducerState] = []
    for copy in (log, *(other for other in log.others if not other.is_tier)):
        stable, found, is_decided, producers = _indexed(copy)
        open_ += producers
        end = copy.segments[-1].next_offset if copy.segments else OFFSET_MAX
        known = {_key(one): one for one in found if one.last_offset < end} | known
        undecided += [] if is_decided else [stable]
    for tier in (other for other in log.others if other.is_tier):  # has no open transactions
        noted, is_whole = _noted(tier), tier.segments[-1].next_offset < limit
        undecided += [] if noted is not None and is_whole else [0]
        known = {_key(one): one for one in noted or () if one.last_offset < limit} | known
    after: list[AbortedTransaction] = []
    if undecided:
        more, after = followed(log, min(undecided), open_)
        known = {_key(one): one for one in more} | known
    end = min((max(log.start_offset, one.first_offset) for one in after), default=OFFSET_MAX)
    ranked = sorted(known.values(), key=lambda one: (one.first_offset, one.last_offset))
    return Committed(end, tuple(ranked), tuple(after))


def _limited(log: PartitionLog, limit: int) -> PartitionLog:
    """The log and its copies, cut at a limit. A log that certainly ends before it is not cut."""
    last = log.segments[-1] if log.segments else None
    if limit == OFFSET_MAX or last is None:
        return log
    end = known_end(last, last.base_offset) if is_last(last) else last.next_offset
    if end <= limit:
        return log
    others = (up_to(other, limit) for other in log.others)
    return replace(up_to(log, limit), others=tuple(one for one in others if one.segments))


def _key(one: AbortedTransaction) -> tuple[int, int]:
    return one.producer_id, one.last_offset


class _Indexed(NamedTuple):
    """The result by indexes and snapshots of one copy: the offset up to which all transactions have
    ended, the aborted transactions, whether all transactions have ended up to the end of the log,
    and the producers with open transactions there."""

    stable: int = 0
    aborted: Sequence[AbortedTransaction] = ()
    is_decided: bool = False
    open: Sequence[ProducerState] = ()


def _indexed(log: PartitionLog) -> _Indexed:
    """The result for one copy. Its batches are read from its last sound snapshot of producers on.
    Most copies have one at the beginning of their last segment."""
    overlaps = not log.is_mounted and any(one.is_clipped for one in log.segments[:-1])
    open_: Sequence[ProducerState] = ()
    with suppress(CorruptFileError, CorruptIndexError), staged(log, ()) as directory:
        segments = [_small_files(log, file, directory) for file in log.segments]
        found = _followed_from_snapshot(log.segments, segments)
        open_ = found.open
        if overlaps or not all(map(_has_indexes, log.segments)):
            return _Indexed(open=open_)
        aborted = [one for segment in segments for one in segment.aborted()]
        known = set(map(_key, aborted))
        late = [one.first_offset for one in found.aborted if _key(one) not in known]
        stable = min((*(one.transaction_start for one in open_), *late), default=found.end)
        goes_further = any(found.end < one.next_offset < OFFSET_MAX for one in log.segments[-1:])
        is_decided = stable == found.end and found.is_sound and not goes_further
        return _Indexed(stable if found.is_sound else 0, aborted, is_decided, open_)
    return _Indexed(open=open_)  # an index is damaged


def _noted(log: PartitionLog) -> list[AbortedTransaction] | None:
    """The aborted transactions in the transaction indexes of a copy; None: one is damaged."""
    with suppress(CorruptFileError, CorruptIndexError), staged(log, ()) as directory:
        segments = (_small_files(log, file, directory) for file in log.segments)
        return [one for segment in segments for one in segment.aborted()]
    return None


def _small_files(log: PartitionLog, file: SegmentFile, directory: Path) -> Segment:
    state = file.state if log.is_mounted else State.LIVE
    return Segment(directory, file.base_offset, OpenFiles(), state)


class _Followed(NamedTuple):
    """The transactions in a copy's batches up to `end`: the aborted ones, and the producers with
    open transactions there. is_sound: no damage and no gap hides a batch."""

    end: int
    aborted: Sequence[AbortedTransaction]
    open: Sequence[ProducerState]
    is_sound: bool


def _followed_from_snapshot(files: Sequence[SegmentFile], segments: Sequence[Segment]) -> _Followed:
    """Follows transactions from the last sound snapshot of producers on. `segments`: the segments
    of `files`, with their small files."""
    states, first = ProducerStates(), 0
    for number in reversed(range(len(segments))):
        found = _snapshot(segments[number].path(Kind.SNAPSHOT))
        if found is not None:
            states, first = found, number
            break
    end = files[first].base_offset if files else 0
    aborted: list[AbortedTransaction] = []
    is_sound = True
    for file in files[first:]:
        is_sound = is_sound and end >= file.base_offset  # otherwise a gap is before it
        end = max(end, file.base_offset)
        if not file.size:
            continue
        try:
            for header, marker in _batches(file):
                if header.base_offset >= min(file.next_offset, file.valid_until):
                    break
                entry = states.update(header, marker)
                aborted += [] if entry is None else [entry]
                end = header.last_offset + 1
        except CorruptRecordsError:
            is_sound = False
    if files and files[-1].size and is_damaged_after(files[-1], end):
        is_sound = False
    open_ = [one for one in states.producers.values() if one.transaction_start >= 0]
    return _Followed(end, aborted, open_, is_sound)


def _batches(file: SegmentFile) -> Iterator[tuple[BatchHeader, EndTransactionMarker | None]]:
    """The batches of a segment, with the markers that end transactions. CorruptRecordsError."""
    with closing(opened(whole_file(file, file.base_offset, is_verified=True))) as found:
        for header in in_order(counted(found.records), file.base_offset, file.offset_max):
            yield header, read_marker(found.records, header)


def _snapshot(path: Path) -> ProducerStates | None:
    """The producers in a snapshot; None: it is not there or damaged."""
    with suppress(CorruptFileError, FileNotFoundError):
        return read_snapshot(path)
    return None


def _has_indexes(file: SegmentFile) -> bool:
    """Whether a segment has the files that a broker writes beside it. Then a segment without a
    transaction index has no aborted transactions."""
    kinds = (Kind.OFFSET_INDEX, Kind.TRANSACTION_INDEX)
    if file.blobs:
        return any(file.blob(kind) is not None for kind in kinds)
    return any(os.path.exists(file.location(kind)) for kind in kinds)  # noqa: PTH110
