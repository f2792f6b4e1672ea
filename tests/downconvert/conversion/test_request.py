"""The parameters of a conversion."""

import pytest

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords, convert, eager
from downconvert.conversion.request import Request
from records import MemoryRecords, Record, build, read

from .channels import sent

ABORTED = [AbortedTransaction(2, 7), AbortedTransaction(1, 3, 5)]
NOTHING = MemoryRecords(b"")


@pytest.mark.parametrize("call", [LazyDownConvertRecords, convert, eager])
def test_aborted_transactions_are_for_a_policy_that_leaves_them_out(call):
    with pytest.raises(ValueError, match="aborted transactions need"):
        call(NOTHING, 1, aborted=ABORTED)
    call(NOTHING, 1, 0, ConversionPolicy(isolation="read_committed"), aborted=iter(ABORTED))


def test_a_request_keeps_its_aborted_transactions():
    policy = ConversionPolicy(isolation="read_committed")
    assert Request.of(1, 9, policy, iter(ABORTED)).aborted == tuple(ABORTED)
    assert Request.of(1, 9, policy, ()) == Request(1, 9, policy)


CALLS = {
    "lazily": lambda *args, **options: sent(LazyDownConvertRecords(*args, **options).to_send()),
    "in chunks": lambda *args, **options: b"".join(convert(*args, **options)),
    "at once": eager,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_aborted_transactions_fit_every_policy(call):
    """An iterator without transactions is as good as an empty tuple."""
    records = MemoryRecords(build([Record(offset=5, timestamp=0, value=b"value")], magic=2))
    made = call(records, 1, aborted=iter(()))
    assert made == call(records, 1)
    assert [record.value for record in read(MemoryRecords(made))] == [b"value"]
