"""Records of `__transaction_state`, byte for byte as Kafka defines them.

The bytes are from its definitions of TransactionLogKey and TransactionLogValue; Kafka's own
decoder reads what is written here (test_transaction_log_differential.py)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.internal_topics.cursor import UnreadableRecordError
from downconvert.internal_topics.transaction import State, Transaction
from downconvert.internal_topics.transaction_records import (
    read_key,
    read_value,
    write_key,
    write_value,
)
from downconvert.storage import TopicPartition

ONGOING = Transaction(
    transactional_id="tx",
    producer_id=7,
    epoch=2,
    timeout_ms=60_000,
    state=State.ONGOING,
    partitions=frozenset({TopicPartition("a", 1), TopicPartition("a", 0)}),
    start_time=1000,
    update_time=2000,
)
V0 = bytes.fromhex(
    "0000"  # version
    "0000000000000007 0002 0000ea60 01"  # producer id, epoch, time-out, state
    "00000001 000161 00000002 00000000 00000001"  # topics, each with its partitions
    "00000000000007d0 00000000000003e8"  # last update, start
)
V1 = bytes.fromhex(
    "0001"
    "0000000000000007 0002 0000ea60 01"
    "02 0261 03 00000000 00000001 00"
    "00000000000007d0 00000000000003e8"
    "03 00 08 0000000000000005 01 08 0000000000000009 02 02 0002"  # previous id, next id, client's
)


def test_version_0_is_written_and_read() -> None:
    assert write_value(ONGOING) == V0
    assert read_value("tx", V0) == ONGOING
    assert write_key("tx") == bytes.fromhex("0000 0002 7478")
    assert read_key(write_key("tx")) == "tx"


def test_version_1_of_later_brokers_is_read() -> None:
    found = read_value("tx", V1)
    assert (found.previous_producer_id, found.next_producer_id) == (5, 9)
    assert found.partitions == ONGOING.partitions
    assert (found.start_time, found.update_time) == (1000, 2000)


def test_an_id_that_later_brokers_have_noted_comes_with_the_end() -> None:
    ended = read_value("tx", V1).prepared(0, commits=True).completed(0)
    assert (ended.producer_id, ended.epoch, ended.next_producer_id) == (9, 0, -1)


def test_an_empty_transaction_has_no_list_of_partitions() -> None:
    empty = Transaction(transactional_id="tx", producer_id=7, epoch=0, timeout_ms=1)
    assert write_value(empty)[17:21] == b"\xff\xff\xff\xff"
    assert read_value("tx", write_value(empty)) == empty


def test_keys_of_other_kinds_are_left_out() -> None:
    assert read_key(bytes.fromhex("0001 0002 7478")) is None


@pytest.mark.parametrize(
    "data",
    [
        V0[:-1],
        b"\x00\x02" + V0[2:],  # a later version
        V0[:16] + b"\x06" + V0[17:],  # a state that is never written
        V0[:17] + b"\x7f\xff\xff\xff" + V0[21:],  # more topics than bytes
        V0[:24] + b"\x7f\xff\xff\xff" + V0[28:],  # more partitions than bytes
        V1[:-2],
        b"",
    ],
)
def test_damaged_records_are_errors(data: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        read_value("tx", data)


@given(data=st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for version in (b"", b"\x00\x00", b"\x00\x01"):
        for read in (read_key, lambda value: read_value("tx", value)):
            try:
                found = read(version + data)
            except UnreadableRecordError:
                continue
            assert found is None or isinstance(found, (str, Transaction))
