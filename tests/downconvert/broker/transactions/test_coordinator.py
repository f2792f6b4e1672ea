"""The transaction coordinator, by its rules: what it decides, and how it carries that out.

Not here: who may write (test_fencing.py)."""

import logging
from math import inf
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.topics import TRANSACTIONS_TOPIC
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask, value
from tests.downconvert.broker.fetching import fetched, fetching
from tests.downconvert.broker.offset_logs import commit, fetch
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

DAY = 86_400.0


# --- a transaction


def test_offsets_committed_in_a_transaction_count_after_it(
    broker: Broker, producer: Producing
) -> None:
    producer.write([b"a", b"b"])
    producer.write([b"c"], ONE)
    assert (committed(broker), committed(broker, ONE)) == ([], [])
    assert producer.end() is ErrorCode.NONE
    assert (committed(broker), committed(broker, ONE)) == ([b"a", b"b"], [b"c"])
    assert is_stable(broker)
    assert is_stable(broker, ONE)


@pytest.mark.parametrize("commits", [True, False])
def test_a_read_committed_fetch_is_woken_by_the_end_of_the_transaction(
    broker: Broker, producer: Producing, commits: bool
) -> None:
    producer.write([b"a"])
    waiting = fetching(
        broker, 11, "t", 0, now=NOW, max_wait_ms=30_000, min_bytes=1, isolation_level=1
    )
    broker.tick(NOW + 1)
    assert not waiting.is_done
    producer.end(commits=commits)
    broker.tick(NOW + 2)
    assert waiting.is_done
    assert fetched(waiting).last_stable_offset == 2


def test_aborted_records_are_never_read(broker: Broker, producer: Producing) -> None:
    producer.write([b"a"])
    assert producer.end(commits=False) is ErrorCode.NONE
    producer.write([b"b"])
    assert producer.end() is ErrorCode.NONE
    assert committed(broker) == [b"b"]


def test_states_are_those_of_kafka(broker: Broker, producer: Producing) -> None:
    def look() -> tuple[str, int]:
        one = state(broker)
        return one.transaction_state, sum(len(topic.partitions) for topic in one.topics)

    assert look() == ("Empty", 0)
    producer.add(ZERO, ONE)
    assert look() == ("Ongoing", 2)
    producer.end()
    assert look() == ("CompleteCommit", 0)
    producer.add(ZERO)
    producer.end(commits=False)
    assert look() == ("CompleteAbort", 0)
    producer.begin()
    assert look() == ("Empty", 0)


@pytest.mark.parametrize("codec", ["producer", "gzip"])
def test_batches_that_are_written_again_stay_transactional(tmp_path: Path, codec: str) -> None:
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"compression.type": codec})
        producer = Producing(broker)
        producer.begin()
        producer.write([b"a"])
        assert committed(broker) == []
        producer.end(commits=False)
        assert committed(broker) == []


def test_an_end_is_asked_again_and_no_other_end(producer: Producing) -> None:
    producer.write([b"a"])
    assert producer.end() is producer.end() is ErrorCode.NONE
    assert producer.end(commits=False) is ErrorCode.INVALID_TXN_STATE


def test_the_end_of_a_transaction_that_has_not_begun_is_an_error(producer: Producing) -> None:
    assert producer.end() is ErrorCode.INVALID_TXN_STATE


def test_a_batch_that_is_sent_again_is_a_duplicate_until_its_transaction_ends(
    broker: Broker, producer: Producing
) -> None:
    """A producer that is fenced learns it from any batch, also from one that is in the log."""
    producer.write([b"a"])
    assert producer.send(b"a", retry=True) is ErrorCode.NONE
    producer.end()
    assert producer.send(b"a", retry=True) is ErrorCode.INVALID_TXN_STATE
    Producing(broker).begin()
    assert producer.send(b"a", retry=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert committed(broker) == [b"a"]


def test_another_batch_needs_an_open_transaction(producer: Producing) -> None:
    assert producer.send(version=10) is ErrorCode.INVALID_TXN_STATE
    assert producer.send(version=11) is ErrorCode.TRANSACTION_ABORTABLE
    producer.write([b"a"])
    assert producer.send(at=ONE) is ErrorCode.INVALID_TXN_STATE
    producer.end()
    assert producer.send() is ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_takes_no_batch_outside_of_it(producer: Producing) -> None:
    producer.write([b"a"])
    assert producer.send(transactional=False) is ErrorCode.INVALID_TXN_STATE


def test_a_batch_says_its_transactional_id(producer: Producing) -> None:
    producer.write([b"a"])
    other = Producing(producer.broker, "other")
    other.id, other.epoch = producer.id, producer.epoch
    other.sequences = producer.sequences
    assert other.send() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    other.begin()
    other.id, other.sequences = producer.id, producer.sequences
    assert other.send() is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# --- partitions


def test_partitions_are_added_all_or_none(broker: Broker, producer: Producing) -> None:
    unknown, not_attempted = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    )
    assert producer.add(ZERO, ("t", 2), ("u", 0)) == [not_attempted, unknown, unknown]
    assert state(broker).transaction_state == "Empty"


def test_brokers_own_topics_take_no_transactions(producer: Producing) -> None:
    for at in ((TRANSACTIONS_TOPIC, 0), (TRANSACTIONS_TOPIC, 7)):
        assert producer.add(at) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_topics_of_old_formats_take_no_transactions(broker: Broker, producer: Producing) -> None:
    broker.topics.configure("t", {"message.format.version": "0.10.2"})
    assert producer.add(ZERO) == [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]


def test_a_topic_may_be_deleted_while_a_transaction_is_open_in_it(
    broker: Broker, producer: Producing
) -> None:
    broker.topics.create("u", 1, {}, 0)
    producer.write([b"a"])
    producer.write([b"b"], ("u", 0))
    broker.topics.delete("u")
    assert producer.end() is ErrorCode.NONE
    assert state(broker).transaction_state == "CompleteCommit"
    assert committed(broker) == [b"a"]


# --- offsets


def test_offsets_of_a_transaction_count_when_it_is_committed(
    broker: Broker, producer: Producing
) -> None:
    assert commit(broker, 3) == ErrorCode.NONE
    assert producer.add_offsets() is ErrorCode.NONE
    assert producer.commit_offset(7) is ErrorCode.NONE
    assert fetch(broker) == (3, ErrorCode.NONE)
    assert fetch(broker, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    producer.end()
    assert fetch(broker) == fetch(broker, stable=True) == (7, ErrorCode.NONE)


def test_offsets_of_an_aborted_transaction_never_count(broker: Broker, producer: Producing) -> None:
    commit(broker, 3)
    producer.add_offsets()
    producer.commit_offset(7)
    producer.end(commits=False)
    assert fetch(broker, stable=True) == (3, ErrorCode.NONE)


def test_offsets_are_committed_in_an_open_transaction_only(producer: Producing) -> None:
    assert producer.commit_offset(7, version=3) is ErrorCode.INVALID_TXN_STATE
    assert producer.commit_offset(7, version=4) is ErrorCode.TRANSACTION_ABORTABLE
    producer.add_offsets()
    producer.end()
    assert producer.commit_offset(7, version=3) is ErrorCode.INVALID_TXN_STATE


def test_offsets_are_committed_for_members_of_this_generation_only(producer: Producing) -> None:
    producer.add_offsets()
    assert producer.commit_offset(7, generation_id=1) is ErrorCode.ILLEGAL_GENERATION
    producer.commit_offset(7)
    assert producer.commit_offset(7, generation_id=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert producer.commit_offset(7, at=("u", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.add_offsets("") is ErrorCode.NONE  # as in Kafka, which takes no offsets of it


# --- time


def test_a_transaction_that_is_open_for_too_long_is_aborted(
    broker: Broker, producer: Producing, caplog: pytest.LogCaptureFixture
) -> None:
    producer.write([b"a"])
    broker.tick(NOW + TIMEOUT_MS / 1000)
    assert not is_stable(broker)
    caplog.set_level(logging.WARNING)
    broker.tick(NOW + TIMEOUT_MS / 1000 + 11)
    assert is_stable(broker)
    assert committed(broker) == []
    assert state(broker).transaction_state == "CompleteAbort"
    assert "its transaction is aborted after 60000 ms" in caplog.text
    assert value(broker, "transactions_ended_total", outcome="timed_out") == 1
    assert producer.end() is ErrorCode.PRODUCER_FENCED
    assert producer.begin() is ErrorCode.NONE


def test_transactional_ids_are_forgotten_after_a_week(broker: Broker, producer: Producing) -> None:
    other = Producing(broker, "other")
    other.begin()
    other.now += 6 * DAY
    other.add(ZERO)
    other.end()
    for day in (6, 8):
        broker.tick(NOW + day * DAY)
    assert state(broker).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert state(broker, "other").transaction_state == "CompleteCommit"
    assert producer.add(ZERO) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    broker.tick(NOW + 20 * DAY)
    assert broker.purgatory.next_deadline == inf  # nothing is maintained any more


# --- restarts


def test_a_restarted_broker_knows_open_transactions(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "u") as broker:
        producer = Producing(broker)
        producer.begin()
        producer.write([b"a"])
        producer.add_offsets()
        producer.commit_offset(7)
    with writable_broker(tmp_path) as broker:
        broker.tick(NOW + 1)
        producer.broker = broker
        assert producer.send(b"b") is ErrorCode.NONE
        assert producer.end() is ErrorCode.NONE
        assert committed(broker) == [b"a", b"b"]
        assert fetch(broker, stable=True) == (7, ErrorCode.NONE)
    with writable_broker(tmp_path) as broker:
        assert state(broker).transaction_state == "CompleteCommit"


def test_a_transaction_without_its_producer_is_aborted_after_a_restart(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        producer = Producing(broker)
        producer.begin()
        producer.write([b"a"])
    with writable_broker(tmp_path) as broker:
        broker.tick(NOW + 3600)  # and nobody has asked for anything
        assert is_stable(broker)
        assert committed(broker) == []


def test_missing_markers_are_written_later(
    broker: Broker, producer: Producing, caplog: pytest.LogCaptureFixture
) -> None:
    producer.write([b"a"])
    producer.write([b"b"], ONE)
    partition = broker.topics["t"].partitions[1]
    partition.leader = None
    assert producer.end() is ErrorCode.NONE  # it is decided
    assert "no marker in 1 partitions; t-1: NOT_LEADER_OR_FOLLOWER" in caplog.text
    one = state(broker)
    assert (one.transaction_state, one.topics[0].partitions) == ("PrepareCommit", [1])
    assert value(broker, "open_transactions") == 1
    assert producer.end() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.end(commits=False) is ErrorCode.INVALID_TXN_STATE
    assert producer.add(ZERO) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert producer.send() is ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.begin() is ErrorCode.CONCURRENT_TRANSACTIONS
    partition.leader = partition.node_id
    broker.tick(NOW + 11)
    assert state(broker).transaction_state == "CompleteCommit"
    assert (committed(broker), committed(broker, ONE)) == ([b"a"], [b"b"])


def test_a_transaction_is_not_decided_if_it_cannot_be_stored(
    broker: Broker, producer: Producing
) -> None:
    producer.write([b"a"])
    partition = broker.topics[TRANSACTIONS_TOPIC].partitions[0]
    partition.leader = None
    assert producer.end() is ErrorCode.NOT_COORDINATOR
    assert producer.add(ONE) == [ErrorCode.NOT_COORDINATOR]
    assert state(broker).transaction_state == "Ongoing"
    partition.leader = partition.node_id
    assert producer.end() is ErrorCode.NONE
    assert committed(broker) == [b"a"]


def test_a_batch_of_a_transaction_without_a_name_is_refused(producer: Producing) -> None:
    producer.write([b"a"])
    producer.end()
    producer.name = ""
    assert producer.send() is ErrorCode.INVALID_REQUEST


def test_fencing_of_a_producer_is_checked_before_its_group(
    broker: Broker, producer: Producing
) -> None:
    producer.add_offsets()
    Producing(broker).begin()
    assert producer.commit_offset(7, generation_id=9) is ErrorCode.INVALID_PRODUCER_EPOCH
    producer.name = ""
    assert producer.commit_offset(7) is ErrorCode.INVALID_REQUEST


def test_too_large_metadata_is_checked_after_the_group(broker: Broker) -> None:
    partition = Message(partition_index=0, committed_offset=1, committed_metadata="x" * 5000)
    topics = [Message(name="t", partitions=[partition])]

    def said(generation: int) -> int:
        body = Message(group_id="g", generation_id_or_member_epoch=generation, topics=topics)
        (topic,) = ask(broker, ApiKey.OffsetCommit, 8, body).topics
        found: int = topic.partitions[0].error_code
        return found

    assert said(3) == ErrorCode.ILLEGAL_GENERATION
    assert said(-1) == ErrorCode.OFFSET_METADATA_TOO_LARGE
