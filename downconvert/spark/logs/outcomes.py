"""Follows transactions through all copies of a log, from batch to batch.

A damaged or missing batch may have been the marker that ended a transaction. So the outcome of each
transaction that is open there is unknown. Its records before the damage count as aborted, and
records after it are read. The reader of the records reports the damage.

Not here: indexes and snapshots, which make following unnecessary (isolation.py)."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace

from downconvert.storage.indexes.transaction_index import AbortedTransaction
from downconvert.storage.names import OFFSET_MAX
from downconvert.storage.producers.producer_state import (
    ProducerState,
    ProducerStates,
    read_marker,
)

from .completeness import State, Stretch, stretches_of_copies, whole_split
from .opening import opened
from .segment_files import PartitionLog
from .splits import whole_file
from .whole_log import whole_log


def followed(
    log: PartitionLog,
    start: int,
    known: Iterable[ProducerState] = (),
) -> tuple[list[AbortedTransaction], list[AbortedTransaction]]:
    """The aborted transactions with batches from offset `start` on. Transactions without an end are
    included, as if they were aborted at the end of the log.

    `known`: producers with open transactions at the end of a copy, by its snapshots. They count if
    no copy has the first batches of the transaction any more.

    FileNotFoundError: a segment is gone. SegmentChangedError, StoreError."""
    states = ProducerStates()
    aborted: list[AbortedTransaction] = []
    for number, piece in enumerate(_all(log, start)):
        if not number:
            states = ProducerStates(one for one in known if one.transaction_start < piece.start)
        if piece.state is State.WHOLE:
            aborted += _aborted_in(piece, states)
        else:
            aborted += open_ones(states, piece.start)
            states = ProducerStates()
    return aborted, open_ones(states, OFFSET_MAX)


def open_ones(states: ProducerStates, end: int) -> list[AbortedTransaction]:
    """The open transactions, as if they were aborted at an offset."""
    starts = sorted((one.transaction_start, one.producer_id) for one in states.producers.values())
    return [AbortedTransaction(who, start, end, start) for start, who in starts if start >= 0]


def _aborted_in(piece: Stretch, states: ProducerStates) -> Iterable[AbortedTransaction]:
    file = piece.segment
    assert file is not None
    with closing(opened(whole_file(file, piece.start, piece.end))) as found:
        records = found.records.slice(piece.first, piece.last - piece.first)
        for header in records.batches():
            if header.producer_id >= 0 and piece.start <= header.last_offset:
                marker = read_marker(records, header)
                entry = states.update(header, marker)
                if entry is not None:
                    yield entry


def _all(log: PartitionLog, start: int) -> Iterator[Stretch]:
    yield from _before_start(log, start)
    yield from whole_log(log, start)


def _before_start(log: PartitionLog, start: int) -> Iterator[Stretch]:
    """The offsets from `start` up to the log's first segment, which only other copies still have. A
    DeleteRecords request may have removed them while a transaction in them was open."""
    first = log.segments[0] if log.segments else None
    if first is None:
        return
    bases = (other.segments[0].base_offset for other in log.others if other.segments)
    at = max(start, min(bases, default=first.base_offset))
    if at < first.base_offset:
        before = replace(first, base_offset=at, next_offset=first.base_offset)
        yield from stretches_of_copies(whole_split(log, before), at, first.base_offset)
