"""The fast path of Produce answers as the handler, and writes the same."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker, BrokerConfig
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.appending import prepare_ordinary
from downconvert.storage import LogConfig, LogDir
from downconvert.storage.disk.faulty_disk import FaultyDisk
from records import Codec, backend
from tests.damage import damaged, mutated
from tests.downconvert.broker.asking import begin, frame, value
from tests.downconvert.broker.producing import NOW, NOW_MS, batch, magic_of
from tests.downconvert.broker.two_replicas import OWN, decision

from .both_ways import BothWays, both_ways, check_logs, with_tags

VERSIONS = range(14)
FAST = range(3, 14)

pytestmark = pytest.mark.skipif(
    backend.NAME != backend.NATIVE, reason="the reference leaves every batch to its caller"
)


def request(
    records: bytes | None,
    *,
    index: int = 0,
    topic: str = "t",
    topic_id: bytes = bytes(16),
    acks: int = 1,
) -> Message:
    partition = Message(index=index, records=records)
    asked = Message(name=topic, topic_id=topic_id, partition_data=[partition])
    return Message(acks=acks, timeout_ms=9, topic_data=[asked])


def some_records(random: Random) -> bytes | None:
    codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD))
    good = batch(random.choice((1, 2, 20)), codec=codec)
    match random.randrange(12):
        case 0:
            return batch(2, magic=magic_of(random.randrange(4)))
        case 1:
            return good + batch(1)
        case 2:
            return random.choice((None, b"", good[:-1], good[:70], good[:17]))
        case 3:
            field = random.choice(("base_offset", "records_count", "last_offset_delta", "crc"))
            return damaged(good, field=field, to=random.choice((0, 1, 7)))
        case 4:
            return damaged(good, field="attributes", to=random.choice((8, 16, 32, 7)))
        case 5 | 6:  # of an idempotent producer, whose sequence numbers may be duplicates or gaps
            producing = {"producer_id": 5, "producer_epoch": random.choice((0, 0, 0, 1))}
            return batch(2, base_sequence=random.choice((0, 2, 4, 50)), **producing)
        case 7:
            return mutated(good, random)
    return good


def some_request(random: Random, version: int, broker: Broker) -> bytes:
    topic = random.choice(["t"] * 9 + ["none", "__consumer_offsets", "\u00e9", "", "n" * 127])
    topic_id = broker.topics[topic].id if topic in broker.topics else random.randbytes(16)
    body = request(
        some_records(random),
        index=random.choice([0, 0, 0, 1, 2, -1]),
        topic=topic,
        topic_id=topic_id,
        acks=random.choice([1] * 9 + [-1, -1, -1, 0, 2]),
    )
    body.transactional_id = random.choice([None] * 9 + ["", "x"])
    if random.random() < 0.1:
        body.topic_data *= random.choice((0, 2))
    if random.random() < 0.1 and body.topic_data:
        body.topic_data[0].partition_data *= random.choice((0, 2))
    data = frame(ApiKey.Produce, version, body)
    if random.random() < 0.1:
        data = with_tags(data, random)
    return mutated(data, random) if random.random() < 0.1 else data


@pytest.mark.parametrize("seed", range(20))
def test_the_responses_and_the_logs_are_the_same(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    with both_ways(tmp_path, "t", "__consumer_offsets") as both:
        for _ in range(150):
            both.compare(some_request(random, random.choice(VERSIONS), both.brokers[0]), NOW)
        assert both.answered
        check_logs(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("acks", [1, -1])
def test_one_batch_takes_the_fast_path_in_these_versions(
    version: int, codec: Codec, acks: int, tmp_path: Path
) -> None:
    with both_ways(tmp_path, "t") as both:
        topic_id = both.brokers[0].topics["t"].id
        body = request(batch(codec=codec), topic_id=topic_id, acks=acks)
        data = frame(ApiKey.Produce, version, body)
        assert both.compare(data, NOW) is (version in FAST)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_a_request_that_was_cut_is_refused_as_before(version: int, tmp_path: Path) -> None:
    with both_ways(tmp_path, "t") as both:
        topic_id = both.brokers[0].topics["t"].id
        data = frame(ApiKey.Produce, version, request(batch(), topic_id=topic_id))
        for size in range(len(data)):
            assert not both.compare(data[:size], NOW)
        assert both.compare(data, NOW)


def fast(both: BothWays, access: Access | None = None) -> bool:
    return both.compare(frame(ApiKey.Produce, 7, request(batch())), NOW, access)


def test_clients_with_quotas_and_limited_rights_are_answered_as_before(tmp_path: Path) -> None:
    with both_ways(tmp_path, "t") as both:
        assert fast(both, Access())
        assert not fast(both, Access(producer_byte_rate=10**6))
        assert not fast(both, Access(is_read_only=True))


@pytest.mark.parametrize("config", [{"message.timestamp.type": "LogAppendTime"}, {}])
def test_settings_of_the_topic_count(config: dict[str, str], tmp_path: Path) -> None:
    with both_ways(tmp_path, "t") as both:
        for broker in both.brokers:
            broker.topics.configure("t", config)
        assert fast(both)
        for broker in both.brokers:
            broker.topics.configure("t", {"compression.type": "gzip"})
        assert not fast(both)
        check_logs(tmp_path)


def test_nothing_is_appended_after_the_disk_has_failed(tmp_path: Path) -> None:
    with both_ways(tmp_path, "t") as both:
        assert fast(both)
        for broker in both.brokers:
            partition = broker.topics["t"].partitions[0]
            partition.log.writer.files.fence(tmp_path, OSError(5, "failed"))
        assert not fast(both)


@pytest.mark.parametrize("fault", ["write", "truncate", "sync", *range(12)])
def test_records_are_appended_once_whatever_the_disk_does(fault: str | int, tmp_path: Path) -> None:
    """`fault`: the operation that fails once, or the number of operations until the disk is full.
    Each batch begins a segment."""
    for name in ("fast", "other"):
        (tmp_path / name).mkdir()
    disks = [FaultyDisk(tmp_path / name) for name in ("fast", "other")]
    config = LogConfig(segment_bytes=len(batch(20)) + 1, index_interval_bytes=0)
    with ExitStack() as stack:
        brokers = []
        for disk in disks:
            log_dir = LogDir.open(disk.root, writable=True, config=config, files=disk)
            broker = Broker(stack.enter_context(log_dir), BrokerConfig(is_writable=True))
            broker.topics.create("t", 1, {}, 0)
            brokers.append(broker)
        both = BothWays(*brokers)
        producing = {"producer_id": 5, "producer_epoch": 0}
        for number in range(9):
            if number == 3:
                for disk in disks:
                    disk.fill_in(fault) if isinstance(fault, int) else disk.fail_next(fault)
            data = batch(20, base_sequence=20 * number, **producing)
            both.compare(frame(ApiKey.Produce, 7, request(data)), NOW)
        for disk in disks:
            disk.fill(is_full=False)
        both.compare(frame(ApiKey.Produce, 7, request(batch(base_sequence=0))), NOW)
        check_logs(tmp_path)


def test_a_broker_that_does_not_lead_or_only_reads_refuses_as_before(tmp_path: Path) -> None:
    with both_ways(tmp_path, "t") as both:
        assert fast(both)
        for broker in both.brokers:
            broker.config = replace(broker.config, is_writable=False)
        assert not fast(both)
        for broker in both.brokers:
            broker.config = replace(broker.config, is_writable=True)
            broker.topics["t"].partitions[0].await_controller(0)
        assert not fast(both)
        check_logs(tmp_path)


def test_a_request_that_waits_for_another_replica_is_left(tmp_path: Path) -> None:
    data = frame(ApiKey.Produce, 7, request(batch(), acks=-1))
    with both_ways(tmp_path, "t", node_id=OWN) as both:
        assert both.compare(data, NOW)
        for broker in both.brokers:
            broker.topics["t"].partitions[0].assign(decision(1, OWN), NOW)
        assert not both.compare(data, NOW)
        assert fast(both)
        check_logs(tmp_path)


def test_a_batch_of_an_open_transaction_is_left(tmp_path: Path) -> None:
    def data(sequence: int) -> bytes:
        producing = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
        return batch(2, transactional=True, **producing)

    with both_ways(tmp_path, "t") as both:
        for broker in both.brokers:
            topic = broker.topics["t"]
            prepared = prepare_ordinary(data(0), topic.append_config, NOW_MS)
            assert prepared is not None
            topic.partitions[0].append(prepared, NOW, NOW_MS, lambda _: None)
        assert not both.compare(frame(ApiKey.Produce, 7, request(data(2))), NOW)


def test_a_waiting_fetch_gets_the_records(tmp_path: Path) -> None:
    wanted = Message(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [Message(topic="t", partitions=[wanted])]
    body = Message(replica_id=-1, max_wait_ms=1000, min_bytes=1, max_bytes=1000, topics=topics)
    with both_ways(tmp_path, "t") as both:
        waiting = [begin(broker, ApiKey.Fetch, 4, body, now=NOW) for broker in both.brokers]
        assert not any(exchange.is_done for exchange in waiting)
        assert fast(both)
        assert all(exchange.is_done for exchange in waiting)


def test_a_produce_is_counted_once(tmp_path: Path) -> None:
    with both_ways(tmp_path, "t") as both:
        assert fast(both)
        for broker in both.brokers:
            assert value(broker, "requests_total", api="Produce", version="7") == 1
