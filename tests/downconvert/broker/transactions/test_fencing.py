"""Only the newest producer may write under a transactional id. Earlier ones are fenced."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.transactions.state_topic import StateTopic
from downconvert.protocol.errors import BadRequestError, ErrorCode
from tests.downconvert.broker.asking import value
from tests.downconvert.broker.transacting import (
    NOW,
    TIMEOUT_MS,
    ZERO,
    Producing,
    committed,
    is_stable,
)
from tests.downconvert.broker.writable import writable_broker


def test_a_new_producer_fences_the_last_one_and_aborts_what_it_had_open(broker: Broker) -> None:
    old, new = Producing(broker), Producing(broker)
    old.begin()
    old.write([b"a"])
    assert new.begin() is ErrorCode.NONE
    assert new.id == old.id
    assert new.epoch == old.epoch + 2  # one of them was the marker's
    assert is_stable(broker)
    assert committed(broker) == []
    assert old.send() is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.add(ZERO) == [ErrorCode.PRODUCER_FENCED]
    assert old.end() is ErrorCode.PRODUCER_FENCED
    assert old.add_offsets() is ErrorCode.PRODUCER_FENCED
    assert old.commit_offset(1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.begin(goes_on=True) is ErrorCode.PRODUCER_FENCED
    new.write([b"b"])
    new.end()
    assert committed(broker) == [b"b"]
    assert value(broker, "transactions_begun_total") == 2
    assert value(broker, "transactions_ended_total", outcome="fenced") == 1
    assert value(broker, "transactions_ended_total", outcome="committed") == 1
    assert value(broker, "fenced_producer_requests_total") == 6
    assert value(broker, "open_transactions") == 0


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
def test_only_versions_that_know_producer_fenced_get_it(
    broker: Broker, version: int, code: ErrorCode
) -> None:
    old, new = Producing(broker), Producing(broker)
    old.begin()
    new.begin()
    assert old.add(ZERO, version=version) == [code]
    assert old.end(version=version) is code
    assert old.add_offsets(version=version) is code
    assert old.begin(version=version + 2, goes_on=True) is code  # InitProducerId


def test_a_producer_continues_after_an_error_with_the_next_epoch(
    broker: Broker, producer: Producing
) -> None:
    producer.write([b"a"])
    lost = producer.id, producer.epoch
    assert producer.begin(goes_on=True) is ErrorCode.NONE
    assert committed(broker) == []
    assert is_stable(broker)
    producer.write([b"b"])
    producer.end()
    assert committed(broker) == [b"b"]
    producer.id, producer.epoch = lost
    assert producer.begin(goes_on=True) is ErrorCode.PRODUCER_FENCED


def test_going_on_is_asked_again_where_the_response_was_lost(producer: Producing) -> None:
    lost = producer.id, producer.epoch
    assert producer.begin(goes_on=True) is ErrorCode.NONE
    got = producer.id, producer.epoch
    producer.id, producer.epoch = lost
    assert producer.begin(goes_on=True) is ErrorCode.NONE
    assert (producer.id, producer.epoch) == got
    producer.add(ZERO)  # now it has certainly got it
    producer.end()
    producer.id, producer.epoch = lost
    assert producer.begin(goes_on=True) is ErrorCode.PRODUCER_FENCED


def test_a_fenced_producer_that_wants_to_go_on_ends_nobodys_transaction(broker: Broker) -> None:
    old, new = Producing(broker), Producing(broker)
    old.begin()
    new.begin()
    new.write([b"a"])
    assert old.begin(goes_on=True) is ErrorCode.PRODUCER_FENCED
    assert new.end() is ErrorCode.NONE
    assert committed(broker) == [b"a"]


@contextmanager
def restarted_at(path: Path, epoch: int, last_epoch: int = -1) -> Iterator[Producing]:
    """The producer of a broker that was restarted after it had stored these epochs."""
    with writable_broker(path, "t", partitions=2) as broker:
        producer = Producing(broker)
        assert producer.begin() is ErrorCode.NONE
        one = broker.transactions.get("tx")
        assert one is not None
        topic = StateTopic(broker.config, broker.topics, broker.purgatory, broker.time_of_day)
        later = one.with_epoch(epoch, last_epoch, TIMEOUT_MS, 0)
        assert topic.store(later, NOW) is ErrorCode.NONE
    with writable_broker(path, "t", partitions=2) as broker:
        producer.broker = broker
        yield producer


def test_after_the_last_epoch_comes_another_producer_id(tmp_path: Path) -> None:
    with restarted_at(tmp_path, 0x7FFD) as producer:
        broker, first = producer.broker, producer.id
        assert producer.begin() is ErrorCode.NONE
        assert (producer.id, producer.epoch) == (first, 0x7FFE)
        producer.write([b"a"])
        assert producer.begin(goes_on=True) is ErrorCode.NONE
        assert producer.id != first
        assert producer.epoch == 0
        assert is_stable(broker)
        assert committed(broker) == []
        producer.write([b"b"])
        producer.end()
        assert committed(broker) == [b"b"]


@pytest.mark.parametrize(("epoch", "is_last"), [(0x7FFD, False), (0x7FFE, True)])
def test_the_last_epoch_is_for_fencing_only(tmp_path: Path, epoch: int, is_last: bool) -> None:
    """As in Kafka: the coordinator can always write markers of one epoch more."""
    with restarted_at(tmp_path, epoch) as producer:
        first = producer.id
        assert producer.begin() is ErrorCode.NONE
        expected = (False, 0) if is_last else (True, epoch + 1)
        assert (producer.id == first, producer.epoch) == expected


def test_another_transactional_id_is_another_producer(broker: Broker, producer: Producing) -> None:
    other = Producing(broker, "other")
    other.begin()
    assert other.id != producer.id
    other.id = producer.id
    assert other.add(ZERO) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert Producing(broker, "unknown").end() is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1, ErrorCode.INVALID_REQUEST),
        ("tx", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("tx", 900_000, ErrorCode.NONE),
    ],
)
def test_names_and_timeouts_have_limits(
    broker: Broker, name: str, timeout_ms: int, code: ErrorCode
) -> None:
    assert Producing(broker, name).begin(timeout_ms=timeout_ms) is code


def test_a_producer_id_comes_with_its_epoch(producer: Producing) -> None:
    producer.epoch = -1
    assert producer.begin(goes_on=True) is ErrorCode.INVALID_REQUEST


def test_there_are_only_so_many_transactional_ids(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", transactional_ids_max=1) as broker:
        assert Producing(broker).begin() is ErrorCode.NONE
        assert Producing(broker, "other").begin() is ErrorCode.POLICY_VIOLATION
        assert Producing(broker).begin() is ErrorCode.NONE


def test_a_batch_of_an_epoch_to_come_is_refused_like_one_of_the_past(
    producer: Producing,
) -> None:
    producer.write([b"a"])
    producer.epoch += 1
    assert producer.send() is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_must_have_the_id_and_not_only_the_epoch(producer: Producing) -> None:
    producer.id += 1
    assert producer.begin(goes_on=True) is ErrorCode.PRODUCER_FENCED


def test_going_on_with_exhausted_epochs_is_asked_again_by_the_old_id(tmp_path: Path) -> None:
    with restarted_at(tmp_path, 0x7FFE, 0x7FFD) as producer:
        before = producer.id
        for epoch, code in ((0x7FFE, ErrorCode.NONE), (0x7FFD, ErrorCode.PRODUCER_FENCED)):
            producer.id, producer.epoch = before, epoch
            assert producer.begin(goes_on=True) is code
        producer.id, producer.epoch = before, 0x7FFE
        assert producer.begin(goes_on=True) is ErrorCode.NONE  # its response was lost
        assert (producer.id == before, producer.epoch) == (False, 0)
        assert producer.add(ZERO) == [ErrorCode.NONE]


def test_a_transactional_id_has_so_many_bytes_and_no_more(broker: Broker) -> None:
    assert Producing(broker, "x" * 0x7FFF).begin() is ErrorCode.NONE
    with pytest.raises(BadRequestError, match="transactional_id before 3 has a length of 32768"):
        Producing(broker, "ü" * 0x4000).begin()
