"""Produce: what is answered, at every version, and what is in the log afterwards."""

import gc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from downconvert.broker import Broker, BrokerConfig
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from downconvert.storage.config import LogConfig
from records import Codec, Record, TimestampType, build
from records.formats import V0, V1, V2
from tests.damage import mutated
from tests.downconvert.broker.asking import ask, begin, frame, someone
from tests.downconvert.broker.producing import (
    NOW,
    batch,
    code,
    magic_of,
    produce,
    records,
    request,
    stored,
)
from tests.downconvert.broker.writable import writable_broker
from tests.strategies import record_lists

VERSIONS = range(14)
CREATE, LOG_APPEND = TimestampType.CREATE, TimestampType.LOG_APPEND


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        yield broker


# --- what is appended


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_appends_and_says_where(broker: Broker, version: int) -> None:
    for turn in range(2):
        data = batch(magic=magic_of(version))
        first, second = produce(broker, version, data, data)
        assert (first.error_code, second.error_code) == (0, 0)
        assert (first.base_offset, second.base_offset) == (3 * turn, 3 * turn)
        assert first.log_append_time_ms == -1
        assert first.log_start_offset == (0 if version >= 5 else -1)
    found = stored(broker)
    assert [record.offset for record in found] == list(range(6))
    assert [(r.key, r.value) for r in found] == [(r.key, r.value) for r in records()] * 2
    times = [-1] * 3 if magic_of(version) == V0 else [r.timestamp for r in records()]
    assert [record.timestamp for record in found] == times * 2


@settings(max_examples=40, deadline=None)
@given(
    lists=st.lists(record_lists(), min_size=1, max_size=3),
    magic=st.sampled_from([V2, V1, V0]),
    codec=st.sampled_from([*Codec]),
    data=st.data(),
)
def test_whatever_is_produced_is_read_back_as_kafka_keeps_it(
    lists: list[list[Record]], magic: int, codec: Codec, data: st.DataObject
) -> None:
    if codec is Codec.ZSTD and magic < V2:
        codec = Codec.LZ4
    versions = {V0: range(2), V1: range(2, 3), V2: range(7, 14)}[magic]
    expected: list[tuple[Any, ...]] = []
    with TemporaryDirectory() as path, writable_broker(Path(path), "t") as broker:
        for found in lists:
            numbered = [
                Record(i, one.timestamp, CREATE, one.key, one.value, one.headers)
                for i, one in enumerate(found)
            ]
            sent = build(numbered, magic=magic, codec=codec)
            version = data.draw(st.sampled_from(versions))
            (response,) = produce(broker, version, sent)
            assert (response.error_code, response.base_offset) == (0, len(expected))
            for one in numbered:
                timestamp = -1 if magic == V0 else one.timestamp
                headers = one.headers if magic == V2 else ()
                expected.append((len(expected), timestamp, CREATE, one.key, one.value, headers))
        assert [
            (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
            for r in stored(broker)
        ] == expected
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        codecs = {(header.magic, header.codec) for _, header in partition.log.batches()}
        assert codecs == {(V2, codec)}


def test_a_trailing_part_of_a_batch_is_left_out(broker: Broker) -> None:
    assert code(broker, 2, batch(magic=V1) + batch(magic=V1)[:20]) is ErrorCode.NONE
    assert code(broker, 3, batch() + batch()[:20]) is ErrorCode.NONE
    assert len(stored(broker)) == 6


def test_old_requests_may_bring_nothing(broker: Broker) -> None:
    (response,) = produce(broker, 2, b"")
    assert (response.error_code, response.base_offset) == (0, -1)
    assert code(broker, 3, b"") is ErrorCode.INVALID_RECORD
    assert code(broker, 9, None) is ErrorCode.INVALID_RECORD


def test_the_leader_epoch_is_written_into_batches(broker: Broker) -> None:
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    partition.leader_epoch = 5
    produce(broker, 9, batch())
    ((_, header),) = partition.log.batches()
    assert header.leader_epoch == 5


def test_records_that_are_converted_are_counted(broker: Broker) -> None:
    for version, data in ((2, batch(magic=V1)), (1, batch(5, magic=V0)), (9, batch())):
        produce(broker, version, data)
    counted = broker.metrics.registry.get_sample_value(
        "downconvert_broker_converted_records_total", {"api": "Produce", "topic": "t"}
    )
    assert counted == 8


# --- what is refused


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_and_partitions_are_errors(broker: Broker, version: int) -> None:
    data = batch(magic=magic_of(version))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(broker, version, data, topic="none") is unknown
    responses = produce(broker, version, data, data, data)
    assert [one.error_code for one in responses] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert responses[2].base_offset == -1


@pytest.mark.parametrize("version", [0, 2, 3, 9, 13])
def test_a_broker_that_only_reads_says_so(tmp_path: Path, version: int) -> None:
    with writable_broker(tmp_path, "t"):
        pass
    with LogDir.open(tmp_path) as log_dir:
        broker = Broker(log_dir, BrokerConfig())
        data = batch(magic=magic_of(version))
        assert code(broker, version, data) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_other_leaders_and_internal_topics_take_nothing(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", "__consumer_offsets") as broker:
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        partition.leader = 7
        for version in (0, 2, 9, 13):
            data = batch(magic=magic_of(version))
            assert code(broker, version, data) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            internal = code(broker, version, data, topic="__consumer_offsets")
            assert internal is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_records_for_another_leader_are_not_looked_at(tmp_path: Path) -> None:
    """With this error, the client asks for the leader, so it comes before other errors."""
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"min.insync.replicas": "2"})
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        partition.leader, partition.isr = 7, frozenset()
        partition.replicas = (0, 7)
        for data, acks in ((batch(), -1), (batch()[:-1] + b"?", 1), (batch(), 9)):
            assert code(broker, 9, data, acks=acks) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", [3, 9, 13])
def test_newer_requests_bring_one_batch_of_v2(broker: Broker, version: int) -> None:
    assert code(broker, version, batch(magic=V1)) is ErrorCode.INVALID_RECORD
    assert code(broker, version, batch() + batch()) is ErrorCode.INVALID_RECORD
    assert stored(broker) == []


def test_zstd_needs_version_7(broker: Broker) -> None:
    data = batch(codec=Codec.ZSTD)
    assert code(broker, 6, data) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code(broker, 7, data) is ErrorCode.NONE


def test_single_records_that_are_refused_are_named(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"cleanup.policy": "compact"})
        data = build([Record(0, 1, CREATE, b"k"), Record(1, 1, CREATE, None)], magic=V2)
        for version in (7, 8, 13):
            (response,) = produce(broker, version, data)
            assert response.error_code == ErrorCode.INVALID_RECORD
            named = [one.batch_index for one in response.record_errors]
            assert named == ([1] if version >= 8 else [])
        assert stored(broker) == []


def test_more_than_a_segment_holds_is_refused(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", log_config=LogConfig(segment_bytes=200)) as broker:
        assert code(broker, 9, batch(1)) is ErrorCode.NONE
        (response,) = produce(broker, 9, batch(30))
        assert response.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
        assert response.log_start_offset == -1  # as in Kafka, which checks this before the log
        assert len(stored(broker)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_mutated_batches_never_leave_a_damaged_log(broker: Broker, seed: int) -> None:
    random = Random(seed)
    codes = set()
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    for turn in range(150):
        magic = random.choice((V0, V1, V2, V2))
        codec = random.choice([c for c in Codec if magic == V2 or c is not Codec.ZSTD])
        data = mutated(batch(random.randrange(1, 6), magic=magic, codec=codec), random)
        version = random.choice((0, 1, 2, 2)) if turn % 2 or magic < V2 else 9
        before = partition.end_offset
        refused = code(broker, version, data)
        codes.add(refused)
        assert refused is ErrorCode.NONE or partition.end_offset == before
    assert [record.offset for record in stored(broker)] == list(range(partition.end_offset))
    assert codes <= {
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }


# --- several partitions, several topics


def test_only_errors_that_come_before_the_log_leave_out_where_it_begins(broker: Broker) -> None:
    partition = broker.topics["t"].partitions[0]
    assert code(broker, 9, batch()) is ErrorCode.NONE
    partition.log.writer.delete_records(2)
    late = build([Record(0, -5, CREATE, None, b"v")], magic=V2)
    damaged = batch()[:-1] + b"?"
    (refused,), (corrupt,) = produce(broker, 9, late), produce(broker, 9, damaged)
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.INVALID_TIMESTAMP, 2)
    assert (corrupt.error_code, corrupt.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    (other,) = produce(broker, 9, batch(), acks=2)
    assert (other.error_code, other.log_start_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)


def test_the_first_batch_says_whether_a_request_is_transactional(broker: Broker) -> None:
    plain = batch()
    within = batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert code(broker, 9, plain + within) is ErrorCode.INVALID_RECORD
    assert code(broker, 9, within + plain) is refused
    assert [one.error_code for one in produce(broker, 9, plain, within)] == [refused] * 2


def test_nothing_is_appended_before_damage(broker: Broker) -> None:
    good = batch(1, magic=V1)
    assert code(broker, 2, good + bytes(30)) is ErrorCode.CORRUPT_MESSAGE
    assert stored(broker) == []


@pytest.mark.parametrize("version", [12, 13])
def test_each_topic_of_a_request_has_its_own_response(broker: Broker, version: int) -> None:
    """Since version 13 topics have no names."""
    broker.topics.create("u", 3, {}, 0)
    body = request(broker, batch())
    other = request(broker, None, topic="u").topic_data[0]
    other.partition_data[0].index = 2
    body.topic_data += [other, request(broker, batch()).topic_data[0]]
    if version == 13:
        for topic in body.topic_data:
            topic.name = ""
    found = ask(broker, ApiKey.Produce, version, body, now=NOW).responses
    ids = [broker.topics[name].id for name in "tut"]
    if version == 13:
        assert [one.topic_id for one in found] == ids
    else:
        assert [one.name for one in found] == ["t", "u", "t"]
    parts = [[(one.index, one.base_offset) for one in topic.partition_responses] for topic in found]
    assert parts == [[(0, 0)], [(2, -1)], [(0, 3)]]


def test_a_partition_that_another_broker_leads_takes_nothing(broker: Broker) -> None:
    broker.topics["t"].partitions[0].leader = 7
    codes = [one.error_code for one in produce(broker, 9, batch(), batch())]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]


def test_a_waiting_fetch_is_woken_by_a_produce(broker: Broker) -> None:
    partition = Message(partition=1, fetch_offset=0, partition_max_bytes=1000)
    topic = Message(topic="t", partitions=[partition])
    body = Message(replica_id=-1, max_wait_ms=5000, min_bytes=1, max_bytes=1000, topics=[topic])
    fetch = begin(broker, ApiKey.Fetch, 12, body, now=NOW)
    produce(broker, 9, batch())
    broker.tick(NOW)
    assert not fetch.is_done
    produce(broker, 9, None, batch())
    broker.tick(NOW)
    assert fetch.is_done


@pytest.mark.parametrize(
    ("refusal", "version", "expected"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 10, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_each_version_has_errors_of_transactions_that_its_producers_know(
    refusal: ErrorCode,
    version: int,
    expected: ErrorCode,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise ApiError(refusal)

    monkeypatch.setattr(broker.transactions, "check_batch", refuse)
    body = request(
        broker, batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    )
    body.transactional_id = "tx"
    (topic,) = ask(broker, ApiKey.Produce, version, body, now=NOW).responses
    assert topic.partition_responses[0].error_code == expected
    assert stored(broker) == []


def test_a_transaction_is_checked_before_its_records(broker: Broker) -> None:
    late = [Record(0, -5, CREATE, None, b"v")]
    ids = {"transactional": True, "producer_id": 4, "producer_epoch": 3, "base_sequence": 1}
    body = request(broker, build(late, magic=V2, **ids), acks=-1)
    body.transactional_id = "unknown"
    (topic,) = ask(broker, ApiKey.Produce, 9, body, now=NOW).responses
    assert topic.partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    "first", [None, batch()[:-1] + b"?", bytes(70), batch(codec=Codec.LZ4)], ids=range(4)
)
def test_records_to_rewrite_are_noticed_behind_others(broker: Broker, first: bytes | None) -> None:
    broker.topics.create("rewritten", 2, {"compression.type": "lz4"}, 0)
    there = request(broker, first, batch(), topic="rewritten")
    assert broker.takes_long(memoryview(frame(ApiKey.Produce, 9, there)))
    assert not broker.takes_long(memoryview(frame(ApiKey.Produce, 9, request(broker, first))))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_request_takes_no_memory_after_its_response(broker: Broker, version: int) -> None:
    random, good = Random(version), batch(magic=magic_of(version))
    gc.disable()
    try:
        for _ in range(50):
            body = request(broker, mutated(good, random))
            data = bytearray(frame(ApiKey.Produce, version, body))
            exchange = broker.handle(someone(), memoryview(data), NOW)
            assert exchange.is_done
            del exchange
            data.clear()  # BufferError: something refers to it
    finally:
        gc.enable()
