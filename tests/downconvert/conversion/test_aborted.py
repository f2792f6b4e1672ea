"""Aborted data, by the rules of Kafka's consumers."""

from itertools import permutations

import pytest

from downconvert import AbortedTransaction
from downconvert.conversion.aborted import AbortedTransactions

from .ways import RUNS_ONCE

pytestmark = RUNS_ONCE

ABORT, COMMIT = bytes.fromhex("00000000"), bytes.fromhex("00000001")


def test_data_is_aborted_from_the_first_offset_to_the_marker():
    aborted = AbortedTransactions([AbortedTransaction(1, 10)])
    assert not aborted.holds(1, 5, 9)
    assert aborted.holds(1, 10, 12)
    assert not aborted.holds(2, 13, 13)
    aborted.marker(2, 13, ABORT)
    assert aborted.holds(1, 14, 15)
    aborted.marker(1, 16, ABORT)
    assert not aborted.holds(1, 17, 20)


@pytest.mark.parametrize("not_abort", [COMMIT, b"\0"])  # the second one is damaged
def test_a_marker_of_no_abort_ends_nothing(not_abort):
    aborted = AbortedTransactions([AbortedTransaction(1, 10)])
    assert aborted.holds(1, 10, 10)
    aborted.marker(1, 11, not_abort)
    assert aborted.holds(1, 12, 12)


def test_a_known_last_offset_ends_a_transaction_without_a_marker():
    aborted = AbortedTransactions([AbortedTransaction(1, 10, last_offset=20)])
    assert aborted.holds(1, 15, 19)
    assert aborted.holds(1, 20, 20)
    assert not aborted.holds(1, 21, 25)


def test_transactions_of_several_producers_overlap():
    aborted = AbortedTransactions([AbortedTransaction(2, 12), AbortedTransaction(1, 10)])
    assert aborted.holds(1, 10, 11)
    assert aborted.holds(2, 12, 13)
    aborted.marker(1, 14, ABORT)
    assert not aborted.holds(1, 15, 15)
    assert aborted.holds(2, 16, 16)


@pytest.mark.parametrize("firsts", list(permutations((10, 20, 30))))
def test_transactions_are_given_in_any_order(firsts):
    aborted = AbortedTransactions([AbortedTransaction(first, first) for first in firsts])
    for first in (10, 20, 30):
        assert not aborted.holds(first, first - 1, first - 1)
        assert aborted.holds(first, first, first + 1)


def test_a_transaction_that_began_before_the_slice_counts():
    assert AbortedTransactions([AbortedTransaction(1, 10)]).holds(1, 400, 410)


@pytest.mark.parametrize("offset", [10, 20])
def test_a_marker_ends_a_transaction_without_seen_data(offset):
    """The data before the marker may have been removed, and what follows is still committed."""
    aborted = AbortedTransactions([AbortedTransaction(1, 10)])
    aborted.marker(1, offset, ABORT)
    assert not aborted.holds(1, offset + 1, offset + 5)


def test_a_marker_does_not_end_a_later_transaction():
    aborted = AbortedTransactions([AbortedTransaction(1, 10)])
    aborted.marker(1, 9, ABORT)
    assert aborted.holds(1, 10, 12)


def test_a_batch_whose_last_records_are_of_the_transaction_is_left_out():
    """As in Kafka, which compares with the batch's last offset."""
    aborted = AbortedTransactions([AbortedTransaction(1, 13)])
    assert aborted.holds(1, 10, 13)
    other = AbortedTransactions([AbortedTransaction(1, 13)])
    assert not other.holds(1, 10, 12)


def test_a_batch_that_begins_within_a_transaction_is_left_out_as_a_whole():
    """A batch belongs to one transaction, even if its last offset is after the known end."""
    aborted = AbortedTransactions([AbortedTransaction(1, 10, last_offset=20)])
    assert aborted.holds(1, 20, 24)
    assert not aborted.holds(1, 25, 25)
