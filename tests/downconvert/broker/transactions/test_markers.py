"""Markers: each partition of a transaction gets one, even if others fail."""

from pathlib import Path

from downconvert.broker import Broker
from downconvert.broker.topics import TRANSACTIONS_TOPIC
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, value
from tests.downconvert.broker.offset_logs import offsets_log
from tests.downconvert.broker.transacting import (
    NOW,
    ONE,
    TIMEOUT_MS,
    ZERO,
    Producing,
    committed,
    is_stable,
    state,
)
from tests.downconvert.broker.writable import writable_broker

from .test_between_steps import Stopping

WEEK = 7 * 86_400.0 + 1


def fail() -> None:
    raise OSError("the disk")


def test_a_deleted_topic_keeps_no_marker_from_the_others(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "a", "t", partitions=2) as broker:
        producer = Producing(broker)
        producer.begin()
        producer.write([b"gone"], ("a", 0))
        producer.write([b"b"], ONE)
        ask(broker, ApiKey.DeleteTopics, 1, Message(topic_names=["a"], timeout_ms=1000), now=NOW)
        assert producer.end() is ErrorCode.NONE
        assert committed(broker, ONE) == [b"b"]
        assert state(broker).transaction_state == "CompleteCommit"


def test_a_partition_that_is_added_beside_one_that_is_there_gets_its_marker_too(
    broker: Broker, producer: Producing
) -> None:
    assert producer.add(ZERO) == [ErrorCode.NONE]
    assert producer.add(ZERO, ONE) == [ErrorCode.NONE, ErrorCode.NONE]
    assert producer.send(b"b", ONE) is ErrorCode.NONE
    assert producer.end() is ErrorCode.NONE
    assert (committed(broker, ONE), is_stable(broker, ONE)) == ([b"b"], True)
    assert value(broker, "transactions_begun_total") == 1


def test_offsets_of_a_transaction_get_one_marker(broker: Broker, producer: Producing) -> None:
    assert producer.add_offsets() is ErrorCode.NONE
    assert producer.commit_offset(3) is ErrorCode.NONE
    assert producer.end() is ErrorCode.NONE
    index = broker.groups.topic.partition_of("g")
    kinds = [header.is_control for _, header in offsets_log(broker, index).batches()]
    assert kinds == [False, True]


def test_an_abort_that_cannot_be_noted_keeps_no_other_from_its_own(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        first, second = Producing(broker, "x"), Producing(broker, "y")
        assert first.begin() is ErrorCode.NONE
        (index,) = (
            at for at, one in broker.topics[TRANSACTIONS_TOPIC].partitions.items() if one.end_offset
        )
        assert second.begin() is ErrorCode.NONE
        for producer, at in ((first, ZERO), (second, ONE)):
            producer.write([b"a"], at)
        stored = broker.topics[TRANSACTIONS_TOPIC].partitions[index]
        stored.lock = Stopping(stored.lock, fail)  # type: ignore[assignment]
        broker.transactions.abort_timed_out(NOW + TIMEOUT_MS / 1000 + 1)
        assert (is_stable(broker, ZERO), is_stable(broker, ONE)) == (False, True)


def test_an_id_that_cannot_be_forgotten_is_known_until_it_can(
    broker: Broker, producer: Producing
) -> None:
    (stored,) = (
        one for one in broker.topics[TRANSACTIONS_TOPIC].partitions.values() if one.end_offset
    )
    stored.lock = Stopping(stored.lock, fail)  # type: ignore[assignment]
    broker.transactions.expire(NOW + WEEK)
    assert set(broker.transactions.all()) == {producer.name}
    broker.transactions.expire(NOW + WEEK)
    assert set(broker.transactions.all()) == set()


def test_an_id_that_was_forgotten_is_unknown_after_a_restart(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        for name in ("x", "y"):
            Producing(broker, name, NOW if name == "x" else NOW + WEEK).begin()
        broker.transactions.expire(NOW + WEEK)
    with writable_broker(tmp_path) as broker:
        assert set(broker.transactions.all()) == {"y"}
