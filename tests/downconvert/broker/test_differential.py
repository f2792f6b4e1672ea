"""The same fetches to Kafka 3.9.1 and to this broker, over the same files: equal responses.

The directories are those of real brokers: compacted, with transactions, of every format and codec.
From Fetch version 4 on responses are equal to the byte. Below, where both convert, records are
equal; what Kafka gets wrong there is listed, and nothing else may differ.

Not here: what needs no other broker to be seen (test_fetch.py, test_list_offsets.py)."""

import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Final, TypeAlias

import pytest

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.fetch_versions import AS_ON_DISK_SINCE, ZSTD_SINCE
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from downconvert.storage.names import LEADER_EPOCHS, LOG_STARTS
from records import Codec, MemoryRecords, RecordsError, read_batch
from records.batches.reader import Record, read
from records.formats import V2
from tests.downconvert.storage import brokers
from tests.kafka_server import KafkaServer, running

from .asking import ask, frame, parsed

NEW, OLD = "3.9.1", "3.9.1-zk-ibp2.8"
TOPICS: Final = {
    "none-ct": NEW,
    "gzip-lat": NEW,
    "snappy-ct": NEW,
    "lz4-ct": NEW,
    "zstd-ct": NEW,
    "small-none": NEW,
    "large-gzip": NEW,
    "rolled": NEW,
    "trimmed": NEW,
    "compact": NEW,
    "compact-gzip": NEW,
    "compact-drop": NEW,
    "compact-txn": NEW,
    "txn-none": NEW,
    "txn-gzip": NEW,
    "txn-open": NEW,
    "upgraded": OLD,
    "f09-gzip": OLD,
    "f010-none": OLD,
    "f010-compact-gzip": OLD,
}
FETCH_VERSIONS: Final = range(18)
LIST_OFFSETS_VERSIONS: Final = range(10)
ZSTD: Final = "zstd-ct"
TOPICS_OF_SESSION: Final = ("none-ct", "rolled", "txn-open")
OFFSETS: Final = ("high_watermark", "last_stable_offset", "log_start_offset")

# Kafka's mistakes with clients that do not read the format on disk.
DIFFERENCES_OF_3: Final = {
    "zstd is refused",
    "records come twice",
    "only filler, where there are records",
    # It promises the size of what is on disk, cuts off what becomes larger, and sends one segment.
    "the response ends before there is no more room",
}
DIFFERENCES_BEFORE_3: Final = DIFFERENCES_OF_3 | {"nothing, where a batch is too large"}

MAX: Final = 2**31 - 1
PATIENCE: Final = 120.0  # seconds
NOW: Final = 2e9  # seconds: later than any file is from

Ask: TypeAlias = Callable[[ApiKey, int, SimpleNamespace], Message]


@dataclass(slots=True)
class Pair:
    """Both brokers."""

    kafka: Ask
    ours: Ask
    broker: Broker

    def topic_id(self, topic: str) -> bytes:
        return self.broker.topics[topic].id

    def is_marker(self, topic: str, offset: int) -> bool:
        log = self.broker.topics[topic].partitions[0].log
        return next(header for _, header in log.batches(offset)).is_control


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    temporary = tmp_path_factory.mktemp("differential")
    real, theirs, own = (temporary / name for name in ("real", "theirs", "own"))
    brokers.unpack(real)
    with running(log_dir=theirs, properties={"log.cleaner.enable": "false"}) as kafka:
        for topic in TOPICS:
            kafka.create_topic(topic)
        kafka.kill(0, signal.SIGTERM)
        for topic, version in TOPICS.items():
            fill(theirs / f"{topic}-0", real / version / "log" / f"{topic}-0")
        (theirs / LOG_STARTS).write_text("0\n1\ntrimmed 0 178\n")
        kafka.restart(0)
        noted = Path("trimmed-0", LEADER_EPOCHS)
        until_differs(theirs / noted, real / NEW / "log" / noted)
        shutil.copytree(theirs, own, ignore=shutil.ignore_patterns("__*", ".lock"))
        with asking(kafka) as ask_kafka, LogDir.open(own) as log_dir:
            broker = Broker(log_dir)
            yield Pair(ask_kafka, lambda *what: ask(broker, *what, now=NOW), broker)


def fill(target: Path, source: Path) -> None:
    """The log of one partition instead of another's, which keeps its topic's id."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, target)


def until_differs(path: Path, before: Path) -> None:
    """After a log was trimmed, Kafka notes the new leader's epoch some time later."""
    deadline = time.monotonic() + PATIENCE
    while path.read_bytes() == before.read_bytes():
        assert time.monotonic() < deadline, f"{path} stays as it was"
        time.sleep(0.05)


class asking:  # noqa: N801 - used as a function
    """Asks Kafka over one connection."""

    def __init__(self, kafka: KafkaServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", kafka.ports[0]), timeout=PATIENCE)

    def __enter__(self) -> Ask:
        return self._ask

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _ask(self, api: ApiKey, version: int, body: SimpleNamespace) -> Message:
        request = frame(api, version, body)
        self._socket.sendall(len(request).to_bytes(4) + request)
        with self._socket.makefile("rb") as file:
            head = file.read(4)
            response = head + file.read(int.from_bytes(head))
        return parsed(api, version, response)


def fetch(
    pair: Pair,
    version: int,
    topic: str,
    offset: int,
    max_bytes: int = 1_000_000,
    *,
    total: int = MAX,
    committed: bool = False,
) -> tuple[Message, Message]:
    """Kafka's response for a partition, and ours."""
    partition = Message(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    asked = Message(topic=topic, topic_id=pair.topic_id(topic), partitions=[partition])
    body = Message(replica_id=-1, max_bytes=total, isolation_level=int(committed), topics=[asked])
    responses = (ask_one(ApiKey.Fetch, version, body) for ask_one in (pair.kafka, pair.ours))
    kafka, ours = (response.responses[0].partitions[0] for response in responses)
    return kafka, ours


def records_of(response: Message) -> list[Record]:
    """The whole records, up to where something is no record."""
    found: list[Record] = []
    with suppress(RecordsError):
        found.extend(read(MemoryRecords(bytes(response.records or b""))))
    return found


def offsets(pair: Pair, topic: str) -> list[int]:
    """Where to ask: ends, behind them, inside of batches, batch boundaries."""
    partition = pair.broker.topics[topic].partitions[0]
    start, end = partition.start_offset, partition.end_offset
    return [start - 1, start, start + 5, (start + end) // 2, end - 1, end, end + 1]


def same(kafka: Message, ours: Message, *fields: str) -> None:
    for field in fields:
        assert getattr(kafka, field) == getattr(ours, field), field


@pytest.mark.parametrize("version", [v for v in FETCH_VERSIONS if v >= AS_ON_DISK_SINCE])
def test_unconverted_records_are_equal_to_the_byte(pair: Pair, version: int) -> None:
    is_thorough = version in (AS_ON_DISK_SINCE, FETCH_VERSIONS[-1])
    sizes = (1_000_000, 200) if is_thorough else (1_000_000,)
    isolations = (False, True) if is_thorough else (True,)
    for topic in TOPICS:
        where = offsets(pair, topic)[:: 1 if is_thorough else 2]
        for offset, max_bytes, committed in product(where, sizes, isolations):
            kafka, ours = fetch(pair, version, topic, offset, max_bytes, committed=committed)
            if topic == ZSTD and version < ZSTD_SINCE and len(kafka.records):
                # Kafka asks what codec a topic is set to, and sends what producers chose.
                assert records_of(ours) == records_of(kafka)[: len(records_of(ours))]
                codecs = {header.codec for header in MemoryRecords(ours.records).batches()}
                assert Codec.ZSTD not in codecs
                continue
            if begins_with_nothing_for(offset, kafka, committed=committed):
                assert all(one.offset >= offset for one in records_of(ours))
                continue
            assert (ours.records or b"") == (kafka.records or b"")
            assert (ours.aborted_transactions or []) == (kafka.aborted_transactions or [])
            same(kafka, ours, *OFFSETS, "error_code", "preferred_read_replica")


def begins_with_nothing_for(offset: int, response: Message, *, committed: bool) -> bool:
    """Whether Kafka sends a batch first that has no record at or behind the offset, and no marker
    for a client that needs those."""
    records = MemoryRecords(response.records or b"")
    first = next(records.batches(), None)
    if first is None or first.magic < V2:
        return False
    if first.is_control:
        return not committed
    return all(one.offset < offset for one in read_batch(records, first))


@pytest.mark.parametrize("version", [v for v in FETCH_VERSIONS if v < AS_ON_DISK_SINCE])
def test_converted_records_are_the_same_records(pair: Pair, version: int) -> None:
    differences = set()
    for topic in TOPICS:
        for offset, max_bytes in product(offsets(pair, topic), (1_000_000, 200)):
            kafka, ours = fetch(pair, version, topic, offset, max_bytes)
            if kafka.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
                assert topic == ZSTD
                assert len(ours.records)
                differences.add("zstd is refused")
                continue
            same(kafka, ours, "error_code", "high_watermark")
            theirs, own = (
                [one for one in records_of(response) if one.offset >= offset]
                for response in (kafka, ours)
            )
            if theirs != own:
                differences.add(difference(theirs, own, len(kafka.records or b"")))
    assert differences == DIFFERENCES_BEFORE_3 if version < 3 else DIFFERENCES_OF_3


def difference(theirs: list[Record], own: list[Record], size: int) -> str:
    """The differences between Kafka's response and ours, in words."""
    offsets = [one.offset for one in theirs]
    once = list(dict.fromkeys(offsets))
    if len(once) < len(offsets):
        assert [one.offset for one in own][: len(once)] == once
        return "records come twice"
    assert own[: len(theirs)] == theirs
    assert len(own) > len(theirs)
    if theirs:
        return "the response ends before there is no more room"
    return "only filler, where there are records" if size else "nothing, where a batch is too large"


def test_an_unknown_topic_or_partition_has_the_same_error(pair: Pair) -> None:
    for version in FETCH_VERSIONS:
        for topic, index in (("nowhere", 0), ("none-ct", 7)):
            partition = Message(partition=index, fetch_offset=0, partition_max_bytes=1000)
            id_ = pair.topic_id(topic) if topic in TOPICS else b"nowhere at all.."
            asked = Message(topic=topic, topic_id=id_, partitions=[partition])
            body = Message(replica_id=-1, max_bytes=MAX, topics=[asked])
            kafka, ours = (
                ask_one(ApiKey.Fetch, version, body).responses[0].partitions[0]
                for ask_one in (pair.kafka, pair.ours)
            )
            same(kafka, ours, "error_code", *OFFSETS)
            assert ours.records == b""


def test_limits_of_a_whole_response_are_kept_the_same_way(pair: Pair) -> None:
    """From version 3 on: the first batch comes whole, what follows only where it fits."""
    topics = ["none-ct", "large-gzip", "gzip-lat", "rolled"]
    for version, total, each in product(
        (4, 12, 17), (1, 3_000, 12_000, 30_000), (1, 5_000, 100_000)
    ):
        asked = [
            Message(
                topic=topic,
                topic_id=pair.topic_id(topic),
                partitions=[Message(partition=0, fetch_offset=0, partition_max_bytes=each)],
            )
            for topic in topics
        ]
        body = Message(replica_id=-1, max_bytes=total, topics=asked)
        kafka, ours = (
            [
                bytes(topic.partitions[0].records or b"")
                for topic in ask_one(ApiKey.Fetch, version, body).responses
            ]
            for ask_one in (pair.kafka, pair.ours)
        )
        assert ours == kafka


def test_a_session_has_the_same_responses_as_kafkas(pair: Pair) -> None:
    """Each broker has a session of its own; both see the same requests."""
    said = [session(ask_one, pair) for ask_one in (pair.kafka, pair.ours)]
    assert said[0] == said[1]
    assert len(said[0]) == len(TOPICS_OF_SESSION) + 8


def session(ask_one: Ask, pair: Pair) -> list[object]:
    """The responses to a session's requests, without its id."""
    said: list[object] = []
    id_, epoch = 0, 0

    def request(topics: dict[str, int], forgotten: tuple[str, ...] = (), **fields: int) -> None:
        nonlocal id_, epoch
        body = Message(
            replica_id=-1,
            max_bytes=MAX,
            **{"session_id": id_, "session_epoch": epoch} | fields,
            topics=[
                Message(
                    topic=topic,
                    partitions=[
                        Message(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
                    ],
                )
                for topic, offset in topics.items()
            ],
            forgotten_topics_data=[Message(topic=topic, partitions=[0]) for topic in forgotten],
        )
        response = ask_one(ApiKey.Fetch, 11, body)
        if not response.error_code:
            id_, epoch = response.session_id, epoch + 1
        said.append(
            (
                response.error_code,
                bool(response.session_id),
                sorted(
                    (topic.topic, one.error_code, one.high_watermark, len(one.records or b""))
                    for topic in response.responses
                    for one in topic.partitions
                ),
            )
        )

    ends = {t: pair.broker.topics[t].partitions[0].end_offset for t in TOPICS_OF_SESSION}
    request(dict.fromkeys(TOPICS_OF_SESSION, 0) | {"nowhere": 0})
    request({})
    for topic, end in ends.items():
        request({topic: end})
    request({}, forgotten=("nowhere",))
    request({})
    request({TOPICS_OF_SESSION[0]: 10_000})
    request({TOPICS_OF_SESSION[0]: 0})
    request({}, session_epoch=77)
    request({}, session_id=12345, session_epoch=1)
    return said


@pytest.mark.parametrize("version", LIST_OFFSETS_VERSIONS)
def test_offsets_are_listed_the_same(pair: Pair, version: int) -> None:
    is_thorough = version in (0, 2, LIST_OFFSETS_VERSIONS[-1])
    isolations, replicas = ((0, 1), (-1, -2)) if is_thorough else ((0,), (-1,))
    for topic in TOPICS:
        for timestamp, isolation, replica in product(timestamps(pair, topic), isolations, replicas):
            partition = Message(partition_index=0, timestamp=timestamp, max_num_offsets=3)
            body = Message(
                replica_id=replica,
                isolation_level=isolation,
                topics=[Message(name=topic, partitions=[partition])],
            )
            kafka, ours = (
                ask_one(ApiKey.ListOffsets, version, body).topics[0].partitions[0]
                for ask_one in (pair.kafka, pair.ours)
            )
            if kafka != ours:
                # Kafka takes a marker for a record, with the time at which it was written.
                assert "txn" in topic
                assert kafka.timestamp > ours.timestamp
                assert pair.is_marker(topic, kafka.offset)


def timestamps(pair: Pair, topic: str) -> list[int]:
    """Special times, times of records, and times before, between and after those of records."""
    log = pair.broker.topics[topic].partitions[0].log
    own = sorted(record.timestamp for record in log.records())
    some = [own[0], own[len(own) // 2], own[len(own) // 2] + 1, own[-1], own[-1] + 1]
    return [-1, -2, -3, -4, -5, -6, 0, *some]
