"""Producers' batches that are kept or dropped, and checks of batches in open transactions.

Not here: requests of idempotent producers (test_sequences.py)."""

from typing import Any

import pytest

from downconvert.broker import sequences as module
from downconvert.broker.sequences import BATCHES_KEPT, Sequences
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.storage.producers.producer_state import ProducerState
from records import BatchHeader, MemoryRecords
from records.batch import SEQUENCE_MAX

from .test_sequences import batch


def header(sequence: int, **fields: Any) -> BatchHeader:
    return next(MemoryRecords(batch(sequence, **fields)).batches())


def state(last_sequence: int, last_offset: int, **fields: Any) -> ProducerState:
    return ProducerState(5, 0, last_sequence, last_offset, 1, **fields)


def refuse(_header: BatchHeader) -> None:
    raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)


def test_a_duplicate_in_an_open_transaction_is_known_although_the_transaction_is_ending() -> None:
    """A retry of a batch that was appended is answered, whatever the coordinator says now."""
    known = Sequences()
    producers = {5: state(1, 1, transaction_start=0)}
    again = header(0, transactional=True)
    found = known.checked(again, producers, refuse)
    assert found is not None
    assert (found.base_offset, found.last_offset) == (0, 1)


@pytest.mark.parametrize("fields", [{"sequence": 2}, {"sequence": 7, "epoch": 1}])
def test_a_new_batch_is_checked_before_its_open_transaction(fields: dict[str, int]) -> None:
    """The coordinator decides about every batch that would be appended. A batch of a new epoch does
    not belong to the old epoch's transaction."""
    producers = {5: state(1, 1, transaction_start=0)}
    with pytest.raises(ApiError) as caught:
        Sequences().checked(header(**fields, transactional=True), producers, refuse)
    assert caught.value.code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_plain_batch_is_refused_during_a_transaction_that_began_at_offset_0() -> None:
    """A transaction may begin with the log."""
    producers = {5: state(1, 1, transaction_start=0)}
    with pytest.raises(ApiError) as caught:
        Sequences().duplicate_of(header(2), producers)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_producer_that_the_log_forgot_is_forgotten() -> None:
    """Batches of an expired producer take no memory."""
    known = Sequences()
    known.add_batch(header(0), 0)
    assert known.duplicate_of(header(0), {}) is None
    assert len(known) == 0


def test_a_restored_batch_whose_numbers_wrapped_is_known() -> None:
    """A batch may begin with the highest sequence number and end with 0."""
    found = Sequences().duplicate_of(header(SEQUENCE_MAX), {5: state(0, 1)})
    assert found is not None
    assert found.base_sequence == SEQUENCE_MAX


def test_the_producer_that_was_silent_for_longest_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A producer that appends again is kept for longer than one that does not."""
    monkeypatch.setattr(module, "PRODUCERS_MAX", 2)
    known = Sequences()
    for offset, producer, sequence in ((0, 5, 0), (2, 6, 0), (4, 5, 2), (6, 7, 0), (8, 7, 2)):
        known.add_batch(header(sequence, producer=producer), offset)
    assert len(known) == 2
    for producer, last_offset in ((5, 5), (7, 9)):
        last = ProducerState(producer, 0, 3, last_offset, 1)
        found = known.duplicate_of(header(0, producer=producer), {producer: last})
        assert found is not None


def test_no_more_batches_are_known_than_may_be_in_flight() -> None:
    """A producer's known batches are its last five."""
    known = Sequences()
    for number in range(BATCHES_KEPT + 1):
        known.add_batch(header(2 * number), 2 * number)
    producers = {5: state(2 * BATCHES_KEPT + 1, 2 * BATCHES_KEPT + 1)}
    wanted = [2 * number for number in range(1, BATCHES_KEPT + 1)]
    found = [known.duplicate_of(header(sequence), producers) for sequence in wanted]
    assert [one and one.base_offset for one in found] == wanted
