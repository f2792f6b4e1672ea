"""The parameters of a conversion."""

import pytest

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords, convert, eager
from downconvert.conversion.request import Request
from records import MemoryRecords

ABORTED = [AbortedTransaction(2, 7), AbortedTransaction(1, 3, 5)]
NOTHING = MemoryRecords(b"")


@pytest.mark.parametrize("call", [LazyDownConvertRecords, convert, eager])
def test_aborted_transactions_are_for_a_policy_that_leaves_them_out(call):
    with pytest.raises(ValueError, match="aborted transactions need"):
        call(NOTHING, 1, aborted=ABORTED)
    call(NOTHING, 1, 0, ConversionPolicy(isolation="read_committed"), aborted=iter(ABORTED))


def test_a_request_keeps_them():
    policy = ConversionPolicy(isolation="read_committed")
    assert Request.of(1, 9, policy, iter(ABORTED)).aborted == tuple(ABORTED)
    assert Request.of(1, 9, policy, ()) == Request(1, 9, policy)


@pytest.mark.parametrize("call", [LazyDownConvertRecords, convert, eager])
def test_no_aborted_transactions_fit_every_policy(call):
    """An iterator without transactions is as good as an empty tuple."""
    call(NOTHING, 1, aborted=iter(()))
