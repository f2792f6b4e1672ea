"""Limits of a fetch: bytes, rights and offsets. Some limits make its response come at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from downconvert.access.quotas import WINDOW
from downconvert.access.rights import Access
from downconvert.broker import Broker, Client
from downconvert.broker.partition import Partition
from downconvert.broker.replication.replica import Leadership
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, MemoryRecords
from tests.downconvert.broker.asking import begin, frame, response_of
from tests.downconvert.broker.fetching import broker_of, request
from tests.downconvert.broker.transacting import Producing
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

NODE, FOLLOWER = 4, 0
WAIT = 60_000
AS_FOLLOWER = Access(follower_ids=frozenset({FOLLOWER}))


def asked(
    broker: Broker, version: int, offsets: dict[str, int], *, access: Any = None, **fields: Any
) -> Any:
    """The exchange of a fetch."""
    client = Client(1, "127.0.0.1", access=access)
    replica = fields.pop("replica_id", -1)
    body = request(broker, offsets, replica_id=replica, **fields)
    body.replica_state = Message(replica_id=replica, replica_epoch=-1)
    return begin(broker, ApiKey.Fetch, version, body, client=client)


def found(exchange: Any) -> list[Any]:
    """The partitions of its response, which is there at once."""
    return [topic.partitions[0] for topic in response_of(exchange).responses]


@contextmanager
def replicated(path: Path, *batches: bytes, **config: Any) -> Iterator[tuple[Broker, Partition]]:
    """This broker leads, and the records are not committed, as the follower does not have them."""
    with writable_broker(path, "t", node_id=NODE, **config) as broker:
        partition = broker.topics["t"].partitions[0]
        both = frozenset({NODE, FOLLOWER})
        leadership = Leadership(
            leader=NODE, leader_epoch=5, replicas=(NODE, FOLLOWER), isr=both, alive=both, version=1
        )
        partition.assign(leadership, 0.0)
        for data in batches:
            partition.log.writer.append(data)
        yield broker, partition


@pytest.mark.parametrize(
    ("request_max", "broker_max", "rate", "count"),
    [
        (8_000, 10_000, None, 3),
        (10_000, 6_000, None, 2),
        (10_000, 10_000, 3_000 / WINDOW, 1),
        (5_500, 10_000, 9_000 / WINDOW, 2),
        (10_000, 10_000, None, 4),
        (0, 10_000, None, 1),
    ],
)
def test_a_response_has_no_more_bytes_than_client_broker_and_rate_allow(
    tmp_path: Path, request_max: int, broker_max: int, rate: float | None, count: int
) -> None:
    topics = {name: {0: [batch(0, size=2_400)]} for name in "abcd"}
    access = Access(consumer_byte_rate=rate)
    with broker_of(tmp_path, topics, fetch_max_bytes=broker_max) as broker:
        body: dict[str, Any] = {"max_bytes": 1 << 20}
        exchange = begin_with(broker, dict.fromkeys(topics, 0), request_max, access, **body)
        assert [bool(len(one.records)) for one in found(exchange)] == [
            number < count for number in range(4)
        ]


def begin_with(
    broker: Broker, offsets: dict[str, int], request_max: int, access: Access, **fields: Any
) -> Any:
    body = request(broker, offsets, **fields)
    body.max_bytes = request_max
    client = Client(1, "127.0.0.1", access=access)
    return begin(broker, ApiKey.Fetch, 4, body, client=client)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_clients_get_a_first_message_of_each_partition(tmp_path: Path, version: int) -> None:
    topics = {name: {0: [batch(0, size=5_000)]} for name in "ab"}
    with broker_of(tmp_path, topics) as broker:
        parts = found(asked(broker, version, dict.fromkeys(topics, 0), max_bytes=1_000))
    assert [len(one.records) > 5_000 for one in parts] == [True, True]


@pytest.mark.parametrize("version", [2, 4, 9, 12, 14, 15, 17])
def test_a_follower_reads_to_the_end_as_it_is_and_a_consumer_what_is_committed(
    tmp_path: Path, version: int
) -> None:
    own = {"t": {"message.downconversion.enable": "false"}}
    codec = Codec.NONE if version < 4 else Codec.ZSTD
    data = batch(0, 1, 2, codec=codec, leader_epoch=5)
    with replicated(tmp_path, data, topics=own) as (broker, partition):
        (one,) = found(asked(broker, version, {"t": 0}, replica_id=FOLLOWER, access=AS_FOLLOWER))
        batches = list(MemoryRecords(bytes(one.records)).batches())
        assert (one.error_code, batches[0].codec, one.high_watermark) == (0, codec, 0)
        if version >= 12:
            waiting = asked(broker, version, {"t": 0}, max_wait_ms=WAIT, min_bytes=1)
            assert not waiting.is_done
            asked(broker, version, {"t": 3}, replica_id=FOLLOWER, access=AS_FOLLOWER)
            assert partition.high_watermark == 3
            (one,) = found(waiting)
            assert len(one.records) == len(data)


def test_a_follower_whose_log_diverges_is_answered_at_once_and_commits_nothing(
    tmp_path: Path,
) -> None:
    data = [batch(0, 1, leader_epoch=5), batch(2, leader_epoch=5)]
    with replicated(tmp_path, *data) as (broker, partition):
        waits = {"max_wait_ms": WAIT, "min_bytes": 1, "access": AS_FOLLOWER}
        exchange = asked(broker, 12, {"t": 2}, replica_id=FOLLOWER, last_fetched_epoch=3, **waits)
        (one,) = found(exchange)
        assert (one.error_code, one.diverging_epoch.end_offset) == (0, 0)
        assert partition.high_watermark == 0
        partition.follower_fetched(FOLLOWER, 3, 1.0)
        partition.log.writer.delete_records(2)
        (one,) = found(asked(broker, 12, {"t": 1}, last_fetched_epoch=5, **waits))
        assert one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("leader", [7, None])
@pytest.mark.parametrize("version", [12, 16])
def test_a_follower_that_asks_another_broker_learns_which_one_leads(
    tmp_path: Path, version: int, leader: int | None
) -> None:
    with replicated(tmp_path, batch(0)) as (broker, partition):
        partition.leader = leader
        follower = {"replica_id": FOLLOWER, "access": AS_FOLLOWER}
        waits = {"max_wait_ms": WAIT, "min_bytes": 1}
        (one,) = found(asked(broker, version, {"t": 0}, **follower, **waits))
        assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader_named = (one.current_leader.leader_id, one.current_leader.leader_epoch)
        assert leader_named == (
            (-1 if leader is None else leader, 5) if version >= 16 else (-1, -1)
        )
        partition.leader = NODE
        (one,) = found(asked(broker, version, {"t": 9}, **follower))
        assert one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (-1, -1)


def test_a_reader_of_committed_records_stops_at_an_open_transaction(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        writer = broker.topics["t"].partitions[0].log.writer
        writer.append(batch(0, 1, 2))
        writer.delete_records(1)
        producer = Producing(broker)
        producer.begin()
        producer.write([b"a", b"b"])
        for isolation, count in ((0, 2), (1, 0)):
            (one,) = found(asked(broker, 11, {"t": 3}, isolation_level=isolation))
            assert len(list(MemoryRecords(bytes(one.records)).batches())) == count
            offsets = (one.log_start_offset, one.last_stable_offset, one.high_watermark)
            assert offsets == (1, 3, 5)


# --- answered at once, though the client would wait


@pytest.mark.parametrize("version", [2, 4, 12])
def test_an_error_is_answered_at_once(tmp_path: Path, version: int) -> None:
    with broker_of(tmp_path, {"t": {0: [batch(0)]}}) as broker:
        unknown = asked(broker, version, {"t": 1, "x": 0}, max_wait_ms=WAIT, min_bytes=1)
        codes = [one.error_code for one in found(unknown)]
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if version < 11:
            broker.topics["t"].partitions[0].leader = 7
            (one,) = found(asked(broker, version, {"t": 1}, max_wait_ms=WAIT, min_bytes=1))
            assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_unknown_topic_id_is_distinguished_from_a_missing_partition(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"t": {0: [batch(0)]}}) as broker:
        (one,) = found(asked(broker, 13, {"x": 0}, max_wait_ms=WAIT, min_bytes=1))
        assert one.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        body = request(broker, {"t": 0})
        body.topics[0].partitions[0].partition = 3
        (one,) = found(begin(broker, ApiKey.Fetch, 13, body))
        assert one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_defect_in_one_partition_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_of(tmp_path, {"a": {0: [batch(0)]}, "b": {0: [batch(0)]}}) as broker:
        offsets = Partition.offsets
        bad = broker.topics["a"].partitions[0]

        def fail(partition: Partition, *args: Any, **options: Any) -> Any:
            if partition is bad:
                raise ValueError("a defect")
            return offsets(partition, *args, **options)

        monkeypatch.setattr(Partition, "offsets", fail)
        for at in (0, 1):
            exchange = asked(broker, 4, {"a": 0, "b": at}, max_wait_ms=WAIT, min_bytes=1)
            parts = found(exchange)
            assert [one.error_code for one in parts] == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]
            assert bool(len(parts[1].records)) is (at == 0)
    assert "a defect: partition 0 of a" in caplog.text


def test_as_many_bytes_as_an_old_client_waits_for_are_enough(tmp_path: Path) -> None:
    data = batch(*range(20))
    with broker_of(tmp_path, {"t": {0: [data]}}) as broker:
        enough = asked(broker, 2, {"t": 0}, max_wait_ms=WAIT, min_bytes=len(data))
        assert len(found(enough)[0].records) > len(data)
        more = asked(broker, 2, {"t": 0}, max_wait_ms=WAIT, min_bytes=10 * len(data))
        assert not more.is_done
        nothing = asked(broker, 2, {}, max_wait_ms=WAIT, min_bytes=1)
        assert found(nothing) == []


def test_many_bytes_that_are_sent_as_they_are_need_no_further_turn(tmp_path: Path) -> None:
    topics = {name: {0: [batch(0, size=700_000)]} for name in "abc"}
    with broker_of(tmp_path, topics) as broker:
        exchange = asked(broker, 4, dict.fromkeys(topics, 0))
        assert [len(one.records) > 700_000 for one in found(exchange)] == [True] * 3


@pytest.mark.parametrize("kept", [0, 1 << 24])
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_messages_of_several_segments_are_within_a_hard_limit(
    tmp_path: Path, kept: int, version: int, codec: Codec
) -> None:
    """Small records become larger, so a limit for the bytes of the log is not enough."""
    batches = {start: [batch(*range(start, start + 20), size=2)] for start in range(0, 100, 20)}
    batches[0] = [batch(*range(20), size=2, codec=codec)]
    with broker_of(tmp_path, {"t": batches}, conversions_kept_bytes=kept) as broker:
        everything = 5 * len(batches[20][0])
        (whole,) = found(asked(broker, 3, {"t": 0}, max_bytes=everything))
        assert len(whole.records) > everything
        for _ in range(3):
            for limit in range(len(batches[20][0]), everything, 97):
                (one,) = found(asked(broker, version, {"t": 0}, max_bytes=limit))
                first = next(MemoryRecords(bytes(one.records)).batches())
                assert first.size <= len(one.records) <= max(limit, first.size)


def made(broker: Broker, version: int, *topics: str) -> list[int]:
    """The bytes of each topic in a response, for a client that gets everything uncompressed."""
    body = request(broker, dict.fromkeys(topics, 0), max_wait_ms=0, min_bytes=0)
    data = frame(ApiKey.Fetch, version, body, "")
    exchange = broker.handle(Client(1, "127.0.0.1"), memoryview(data), 0.0)
    while not exchange.is_done:
        broker.tick(0.0)
    return [len(one.records) for one in found(exchange)]


@pytest.mark.parametrize("version", [*range(4), 4, 9])
def test_records_that_become_large_use_up_the_brokers_limit(version: int, tmp_path: Path) -> None:
    """Some hundred bytes of zeros become gigabytes, and there may be many partitions of them."""
    bombs = {name: {0: [batch(0, size=20_000, codec=Codec.ZSTD)]} for name in "abc"}
    with broker_of(tmp_path, bombs, fetch_max_bytes=30_000) as broker:
        first, second, third = made(broker, version, *bombs)
        assert min(first, second) > 20_000
        assert third == 0
        assert made(broker, version, "c")[0] > 20_000


def test_a_response_is_never_larger_than_its_length_can_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 100_000
    monkeypatch.setattr("downconvert.broker.fetch.fetch_reader.RECORDS_SIZE_MAX", limit)
    bombs = {
        name: {
            0: [batch(n, size=20_000, codec=Codec.ZSTD) for n in range(count)],
            count: [batch(n, size=20_000, codec=Codec.ZSTD) for n in range(count, 9)],
        }
        for name, count in (("a", 3), ("b", 2), ("c", 9))
    }
    with broker_of(tmp_path, bombs) as broker:
        assert made(broker, 3, "a", "b") == [100_000, 20_034]  # a first message comes whole
        assert made(broker, 3, "c") == [100_000]
