"""Aborted transactions in a range of offsets, and their batches."""

from pathlib import Path

import pytest

from downconvert.storage.disk.files import DISK
from downconvert.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from downconvert.storage.producers.transactions import AbortedRanges, aborted_between
from downconvert.storage.segments.segments import Segments
from records import MemoryRecords
from tests.downconvert.storage.logs import batch, segment

ENTRIES = [
    AbortedTransaction(0, 0, 10, 11),
    AbortedTransaction(1, 5, 15, 13),
    AbortedTransaction(2, 18, 35, 25),
    AbortedTransaction(3, 32, 50, 40),
]


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    made = [segment(tmp_path, 0), segment(tmp_path, 12)]
    for number, entry in enumerate(ENTRIES):
        base = 0 if number == 0 else 12
        path = tmp_path / f"{base:020d}.txnindex"
        index = TransactionIndex(path, base, DISK)
        index.append(entry)
        index.close()
    return Segments(made)


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 100, ENTRIES),
        (0, 32, ENTRIES[:3]),
        (0, 33, ENTRIES),
        (11, 33, ENTRIES[1:]),
        (20, 33, ENTRIES[2:]),
        (35, 100, ENTRIES[2:]),
        (36, 37, ENTRIES[3:]),
        (0, 5, ENTRIES[:1]),
        (51, 60, []),
    ],
)
def test_transactions_with_records_in_a_range_are_found(
    segments: Segments, start: int, end: int, found: list[AbortedTransaction]
) -> None:
    assert aborted_between(start, end, segments, []) == found


def test_transactions_known_from_two_sources_count_once(segments: Segments) -> None:
    other = AbortedTransaction(9, 40, 60, 61)
    assert aborted_between(0, 100, segments, [other, ENTRIES[1]]) == [*ENTRIES, other]


def test_a_batch_is_aborted_by_producer_and_offset() -> None:
    ranges = AbortedRanges([AbortedTransaction(7, 10, 19, 20), AbortedTransaction(7, 30, 39, 40)])

    def covered(offset: int, producer: int = 7, *, transactional: bool = True) -> bool:
        data = batch(
            offset,
            producer_id=producer,
            producer_epoch=offset,  # whatever it is
            base_sequence=0,
            transactional=transactional,
        )
        return ranges.cover(next(MemoryRecords(data).batches()))

    assert [covered(offset) for offset in (9, 10, 18, 20)] == [False, True, True, False]
    assert [covered(30, 8), covered(30, transactional=False)] == [False, False]
    assert [covered(offset) for offset in (29, 30, 38, 50)] == [False, True, True, False]


def test_the_marker_of_an_aborted_transaction_belongs_to_it() -> None:
    """The last offset of an aborted transaction is part of its range."""
    ranges = AbortedRanges([AbortedTransaction(7, 10, 19, 20)])
    for offset, is_aborted in ((18, True), (19, True), (20, False)):
        data = batch(offset, transactional=True, producer_id=7, producer_epoch=0)
        assert ranges.cover(next(MemoryRecords(data).batches())) is is_aborted


def test_batches_may_come_after_several_aborted_transactions() -> None:
    """As when the cleaner has removed all of their batches, or a read begins later."""
    aborted = [AbortedTransaction(7, first, first + 5, first + 6) for first in (10, 20, 30)]
    for offset, is_aborted in ((40, False), (28, False), (32, True), (22, True), (5, False)):
        data = batch(offset, transactional=True, producer_id=7, producer_epoch=0)
        assert AbortedRanges(aborted).cover(next(MemoryRecords(data).batches())) is is_aborted
