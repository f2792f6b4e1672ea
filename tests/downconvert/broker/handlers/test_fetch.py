"""Fetch, version by version: whole logs of real brokers, and waiting.

Each mistake that Kafka's brokers make with old clients has a test that says what is right.

Not here: the same against Kafka itself (test_differential.py), sessions (test_fetch_session.py),
limits and errors of a partition (test_fetch_reader.py)."""

from pathlib import Path
from typing import Any

import pytest

from downconvert import ConversionPolicy
from downconvert.broker import Broker
from downconvert.broker.fetch.contribution import Contribution, Reading, ReadLimits
from downconvert.broker.fetch.reading import read_as_is
from downconvert.broker.fetch.reading_converted import Reader
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import AS_ON_DISK_SINCE, ZSTD_SINCE
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.planning_slots import PlanningSlots
from downconvert.storage import LogDir
from records import Codec, MemoryRecords, Record, build, build_empty
from records.formats import V0, V1, V2
from tests.downconvert.broker.asking import ask, begin
from tests.downconvert.broker.fetching import (
    OLD_VERSIONS,
    TOPIC_IDS_SINCE,
    VERSIONS,
    broker_of,
    consume,
    fetch,
    fetched,
    fetching,
    marker,
    produce,
    records_of,
    request,
)
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage import brokers
from tests.downconvert.storage.logs import batch

READER = Reader(slots=PlanningSlots())
Told = tuple[int, bytes | None, bytes | None]


def fields(records: list[Record]) -> list[Told]:
    return [(one.offset, one.key, one.value) for one in records]


@pytest.mark.parametrize(("version", "max_bytes"), [(0, 10**6), (1, 2000), (3, 10**6)])
@pytest.mark.parametrize("kafka", ["0.8.2.2", "3.9.1", "3.9.1-zk-ibp2.8"])
def test_old_clients_read_all_that_a_real_consumer_read_once_and_in_order(
    kafka: str, version: int, max_bytes: int, real: Path
) -> None:
    """Never stuck, never twice: transactions, compacted logs, trimmed ones, every codec."""
    with LogDir.open(real / kafka / "log") as log_dir:
        broker = Broker(log_dir)
        for dump in brokers.dumps():
            if (dump.version, dump.directory, dump.committed) != (kafka, "log", False):
                continue
            for name, lines in dump.expected().items():
                if name.partition:
                    continue
                partition = broker.topics[name.topic].partitions[0]
                found = consume(broker, version, name.topic, partition.start_offset, max_bytes)
                assert [one.offset for one in found] == [line["o"] for line in lines], str(dump)
                got = [brokers.line(one) for one in found]
                for field in "kv":
                    assert [one[field] for one in got] == [line[field] for line in lines]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_what_was_written(version: int, tmp_path: Path) -> None:
    segments = {0: [batch(0, 1, 2), batch(3, codec=Codec.LZ4)], 4: [batch(4, 5)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = [one.offset for one in consume(broker, version, "events", 0)]
    assert found == [0, 1, 2, 3, 4, 5]


# --- what Kafka 3.9 gets wrong with old clients


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_a_batch_after_a_marker_is_returned_once(version: int, tmp_path: Path) -> None:
    segments = {0: [marker(0), batch(1, 2), batch(3)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = records_of(fetch(broker, version, "events", 0))
    assert [one.offset for one in found] == [1, 2, 3]


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_where_only_a_marker_is_left_the_response_is_empty(version: int, tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0), marker(1)]}}) as broker:
        response = fetch(broker, version, "events", 1)
    assert (response.error_code, response.high_watermark, response.records) == (0, 2, b"")


@pytest.mark.parametrize("version", VERSIONS[AS_ON_DISK_SINCE:])
def test_new_clients_are_not_sent_for_ever_what_has_no_record_for_them(
    version: int, tmp_path: Path
) -> None:
    """Sarama before 1.39 and kafkajs go on from the last record that they saw."""
    cleaned = batch(0, 1, 2, last_offset=9)
    emptied = build_empty(base_offset=10, last_offset=19)
    segments = {0: [cleaned, emptied], 20: [batch(20)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        assert offsets_at(broker, version, 3) == [20]
        assert offsets_at(broker, version, 2) == [0, 1, 2]


@pytest.mark.parametrize("version", VERSIONS[AS_ON_DISK_SINCE:])
def test_new_clients_get_markers_only_where_they_need_them(version: int, tmp_path: Path) -> None:
    """kafkajs 1.8 stays where a response holds nothing but a marker."""
    segments = {0: [marker(0)], 1: [batch(1)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        partition, limits = (
            broker.topics["events"].partitions[0],
            ReadLimits(max_bytes=99, first=True),
        )
        for committed, first in ((False, 1), (True, 0)):
            found = in_one_turn(
                read_as_is(partition, 0, 2, limits, reader=READER, is_committed=committed)
            )
            assert found.source is not None
            assert next(found.source.batches()).base_offset == first
        assert offsets_at(broker, version, 0) == [1]


def in_one_turn(reading: Contribution | Reading) -> Contribution:
    if isinstance(reading, Contribution):
        return reading
    with pytest.raises(StopIteration) as end:
        next(reading)
    found: Contribution = end.value.value
    return found


def offsets_at(broker: Broker, version: int, offset: int) -> list[int]:
    return [one.offset for one in records_of(fetch(broker, version, "events", offset))]


def test_a_follower_is_sent_every_batch(tmp_path: Path) -> None:
    segments = {0: [batch(0, last_offset=9), batch(10)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        partition, limits = (
            broker.topics["events"].partitions[0],
            ReadLimits(max_bytes=1000, first=True),
        )
        response = in_one_turn(
            read_as_is(partition, 5, 11, limits, reader=READER, is_follower=True)
        )
    assert response.source is not None
    assert next(response.source.batches()).base_offset == 0


@pytest.mark.parametrize("version", OLD_VERSIONS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_compacted_batch_whose_records_are_all_read_is_skipped(
    version: int, codec: Codec, tmp_path: Path
) -> None:
    """Its last offset is not below the one asked for, and its records are."""
    stale = [batch(0, last_offset=9, codec=codec), build_empty(base_offset=10, last_offset=19)]
    segments = {0: stale, 20: [marker(20)], 21: [batch(21, last_offset=25), batch(26)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        found = records_of(fetch(broker, version, "events", 1, max_bytes=30))
        assert [one.offset for one in found][:1] == [21]
        assert [one.offset for one in consume(broker, version, "events", 0, 30)] == [0, 21, 26]


@pytest.mark.parametrize("version", OLD_VERSIONS)
@pytest.mark.parametrize("codec", list(Codec))
def test_no_record_below_the_one_asked_for_is_sent(
    version: int, codec: Codec, tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(*range(20), codec=codec)]}}) as broker:
        found = records_of(fetch(broker, version, "events", 13))
    assert [one.offset for one in found] == list(range(13, 20))


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_zstd_comes_as_something_that_every_client_reads(version: int, tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(*range(50), codec=Codec.ZSTD)]}}) as broker:
        response = fetch(broker, version, "events", 0)
    assert [one.offset for one in records_of(response)] == list(range(50))
    (header,) = MemoryRecords(bytes(response.records)).batches()
    assert (header.magic, header.codec) == (V0 if version < 2 else V1, Codec.GZIP)


@pytest.mark.parametrize("version", [v for v in VERSIONS if v not in OLD_VERSIONS])
def test_zstd_is_sent_only_to_clients_that_know_it(version: int, tmp_path: Path) -> None:
    segments = {0: [batch(0), batch(1, codec=Codec.ZSTD)]}
    with broker_of(tmp_path, {"events": segments}) as broker:
        response = fetch(broker, version, "events", 0)
    assert [one.offset for one in records_of(response)] == [0, 1]
    last = list(MemoryRecords(bytes(response.records)).batches())[-1]
    assert last.codec is (Codec.GZIP if version < ZSTD_SINCE else Codec.ZSTD)


@pytest.mark.parametrize("version", range(ZSTD_SINCE))
def test_zstd_is_refused_where_nothing_may_take_its_place(version: int, tmp_path: Path) -> None:
    segments = {0: [batch(0), batch(1, codec=Codec.ZSTD)]}
    policy = ConversionPolicy(recode={"zstd": "refuse"})
    with broker_of(tmp_path, {"events": segments}, policy=policy) as broker:
        good, refused = (fetch(broker, version, "events", offset) for offset in (0, 1))
    assert [one.offset for one in records_of(good)] == [0]
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_never_null(version: int, tmp_path: Path) -> None:
    """Clients of 0.9 cannot parse that, and one such partition costs them the whole response."""
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}) as broker:
        responses = [fetch(broker, version, "events", offset) for offset in (1, 99)]
        responses.append(fetch(broker, version, "nowhere", 0))
    assert [one.records for one in responses] == [b"", b"", b""]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.error_code for one in responses] == [0, ErrorCode.OFFSET_OUT_OF_RANGE, unknown]


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_headers_do_not_keep_old_clients_from_reading(version: int, tmp_path: Path) -> None:
    record = Record(0, 5, key=b"k", value=b"v", headers=(("h", b"x"), ("h", None)))
    with broker_of(tmp_path, {"events": {0: [build([record], magic=V2)]}}) as broker:
        assert fields(records_of(fetch(broker, version, "events", 0))) == [(0, b"k", b"v")]


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_nothing_newer_than_a_client_reads_is_sent(version: int, tmp_path: Path) -> None:
    batches = [batch(0, magic=V0), batch(1, magic=V1), batch(2), batch(3, codec=Codec.SNAPPY)]
    with broker_of(tmp_path, {"events": {0: [*batches, marker(4)]}}) as broker:
        response = fetch(broker, version, "events", 0)
    magics = {header.magic for header in MemoryRecords(bytes(response.records)).batches()}
    assert magics == ({V0} if version < 2 else {V0, V1})


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_records_in_several_segments_count_together(version: int, tmp_path: Path) -> None:
    one = batch(0, size=100)
    with broker_of(tmp_path, {"events": {0: [one], 1: [batch(1, size=100)]}}) as broker:
        size = 2 * len(one)
        exchange = fetching(broker, version, "events", 0, now=0, max_wait_ms=500, min_bytes=size)
        assert [one.offset for one in records_of(fetched(exchange))] == [0, 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_defect_is_reported_to_the_client_that_asked_and_to_no_other(
    version: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_args: object, **_fields: object) -> None:
        raise ValueError("a defect")

    with writable_broker(tmp_path, "events") as broker:
        exchange = fetching(broker, version, "events", 0, now=0, max_wait_ms=500, min_bytes=1)
        monkeypatch.setattr("downconvert.broker.fetch.fetch_reader.read_converted", fail)
        monkeypatch.setattr("downconvert.broker.fetch.fetch_reader.read_as_is", fail)
        produce(broker, batch(0))
        assert fetched(exchange).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [r.getMessage() for r in caplog.records] == ["a defect: partition 0 of events"] or (
        version >= TOPIC_IDS_SINCE
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_negative_min_bytes_waits_without_harm(version: int, tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        exchange = fetching(
            broker, version, "events", 0, now=0, max_bytes=-5, max_wait_ms=500, min_bytes=1
        )
        produce(broker, batch(0))
        broker.tick(0.5)
        assert fetched(exchange).error_code == ErrorCode.NONE


def test_errors_are_reported_at_once(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "events") as broker:
        exchange = fetching(broker, 11, "events", 9, now=0, max_wait_ms=500, min_bytes=1)
        assert fetched(exchange).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_much_to_convert_is_measured_in_turns(tmp_path: Path) -> None:
    """So that others are served in between."""
    topics = {f"t{i}": {0: [batch(*range(500), size=1_000)]} for i in range(12)}
    with broker_of(tmp_path, topics) as broker:
        body = request(broker, dict.fromkeys(topics, 0))
        exchange = begin(broker, ApiKey.Fetch, 3, body, now=1.0)
        turns, now = 1, 1.0
        while not exchange.is_done:
            deadline = broker.tick(now)
            assert deadline is not None or exchange.is_done
            now = deadline or now
            turns += 1
    assert turns > 3
    assert now < 1.01


def test_a_partition_named_twice_is_read_once(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0, 1)]}}) as broker:
        body: Any = request(broker, {"events": 0})
        body.topics += request(broker, {"events": 1}).topics
        response = ask(broker, ApiKey.Fetch, 11, body)
    assert len([one for topic in response.responses for one in topic.partitions]) == 1


def test_a_request_for_nothing_is_answered(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}) as broker:
        for version in VERSIONS:
            body = Message(replica_id=-1, max_bytes=10, max_wait_ms=1000, min_bytes=1)
            assert ask(broker, ApiKey.Fetch, version, body).responses == []


@pytest.mark.parametrize("version", VERSIONS[4:])
@pytest.mark.parametrize("level", [2, -1])
def test_an_isolation_level_that_there_is_not_is_refused(
    version: int, level: int, tmp_path: Path
) -> None:
    """The client may expect fewer records than those that are committed."""
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}) as broker:
        body = request(broker, {"events": 0}, isolation_level=level)
        refused = ask(broker, ApiKey.Fetch, version, body)
    if version >= 7:
        assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert bool(refused.responses) == (version < TOPIC_IDS_SINCE)
    for topic in refused.responses:
        (one,) = topic.partitions
        assert (one.error_code, one.records) == (ErrorCode.INVALID_REQUEST, b"")


@pytest.mark.parametrize("version", VERSIONS[9:])
def test_any_negative_leader_epoch_of_a_fetch_is_not_compared(version: int, tmp_path: Path) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}) as broker:
        codes = [
            fetch(broker, version, "events", 0, current_leader_epoch=epoch).error_code
            for epoch in (-(2**31), -1, 0, 1)
        ]
    assert codes == [0, 0, 0, ErrorCode.UNKNOWN_LEADER_EPOCH]


@pytest.mark.parametrize("version", VERSIONS[12:])
@pytest.mark.parametrize("epoch", [-(2**31), -2, -1])
def test_a_client_whose_last_epoch_is_negative_has_none_that_could_diverge(
    version: int, epoch: int, tmp_path: Path
) -> None:
    with broker_of(tmp_path, {"events": {0: [batch(0)]}}) as broker:
        found = fetch(broker, version, "events", 0, last_fetched_epoch=epoch)
    assert len(records_of(found)) == 1
    assert found.diverging_epoch.end_offset == -1
