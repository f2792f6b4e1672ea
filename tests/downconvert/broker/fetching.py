"""Fetches as clients do them: one at a time, and one after the other to the end of a log.

Not here: real clients (tests/clients)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from downconvert.broker import Broker, BrokerConfig, Client, Exchange, Owner
from downconvert.protocol.fetch_versions import AS_ON_DISK_SINCE
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from records import ControlRecordType, MemoryRecords, build_marker
from records.batches.reader import Record, read
from tests.downconvert.storage import logs

from .asking import ask, begin, response_of

OLD_VERSIONS: Final = range(AS_ON_DISK_SINCE)
VERSIONS: Final = range(19)
TOPIC_IDS_SINCE: Final = 13
MAX: Final = 2**31 - 1


@contextmanager
def broker_of(
    path: Path, segments: Mapping[str, Mapping[int, Sequence[bytes]]], **config: Any
) -> Iterator[Broker]:
    """A broker that reads topics of one partition: by name, the batches of each segment."""
    for topic, of_topic in segments.items():
        for base_offset, batches in of_topic.items():
            logs.segment(path / f"{topic}-0", base_offset, *batches)
    with LogDir.open(path) as log_dir:
        yield Broker(log_dir, BrokerConfig(**config))


def request(
    broker: Broker, offsets: Mapping[str, int], max_bytes: int = 1_000_000, **fields: Any
) -> Message:
    """The body of a fetch of the first partitions of these topics, from these offsets on."""
    asked = {
        name: fields.pop(name)
        for name in ("current_leader_epoch", "last_fetched_epoch")
        if name in fields
    }
    topics = []
    for topic, offset in offsets.items():
        one = Message(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, **asked)
        id_ = broker.topics[topic].id if topic in broker.topics else bytes(16)
        topics.append(Message(topic=topic, topic_id=id_, partitions=[one]))
    return Message(**{"replica_id": -1, "max_bytes": MAX} | fields, topics=topics)


def fetch(
    broker: Broker, version: int, topic: str, offset: int, max_bytes: int = 1_000_000, **fields: Any
) -> Message:
    """The response for the first partition of a topic, at once."""
    body = request(broker, {topic: offset}, max_bytes, **fields)
    return only(ask(broker, ApiKey.Fetch, version, body))


def fetching(
    broker: Broker,
    version: int,
    topic: str,
    offset: int,
    *,
    now: float,
    client: Client | None = None,
    owner: Owner | None = None,
    **fields: Any,
) -> Exchange:
    """A fetch that may wait."""
    body = request(broker, {topic: offset}, **fields)
    return begin(broker, ApiKey.Fetch, version, body, client=client, now=now, owner=owner)


def fetched(exchange: Exchange) -> Message:
    return only(response_of(exchange))


def only(response: Message) -> Message:
    """The one partition of a response."""
    (topic,) = response.responses
    (partition,) = topic.partitions
    assert isinstance(partition, Message)
    return partition


def records_of(partition: Message) -> list[Record]:
    """The records of a response that has nothing but whole entries."""
    records = MemoryRecords(bytes(partition.records))
    assert sum(header.size for header in records.batches()) == records.size
    return list(read(records))


def consume(
    broker: Broker, version: int, topic: str, offset: int, max_bytes: int = 1_000_000
) -> list[Record]:
    """The records that a client of this version reads of a topic. It takes every response as the
    records that it asked for, and continues after the last one. AssertionError: it makes no
    progress."""
    found: list[Record] = []
    while True:
        partition = fetch(broker, version, topic, offset, max_bytes)
        assert partition.error_code == 0
        if not len(partition.records):
            assert version < AS_ON_DISK_SINCE or offset >= partition.high_watermark
            return found
        before = offset
        if version < AS_ON_DISK_SINCE:
            records = records_of(partition) if version == 3 else whole_records(partition)
            assert records, "it would ask for the same again"
            offset = records[-1].offset + 1
        else:  # since then clients skip markers, and what lies below
            batches = list(MemoryRecords(bytes(partition.records)).batches())
            records = [one for one in whole_records(partition) if one.offset >= offset]
            offset = batches[-1].last_offset + 1
        assert offset > before
        found += records


def whole_records(partition: Message) -> list[Record]:
    """The records of a response whose last entry may be cut off."""
    return list(read(MemoryRecords(bytes(partition.records))))


def marker(offset: int) -> bytes:
    """A control batch of one commit."""
    return build_marker(ControlRecordType.COMMIT, offset=offset, timestamp=offset, producer_id=1)


def produce(broker: Broker, *batches: bytes, acks: int = 1) -> None:
    """As a client of its own does it; AssertionError: it is not appended."""
    for one in batches:
        data = [Message(index=0, records=one)]
        topics = [Message(name="events", partition_data=data)]
        body = Message(acks=acks, timeout_ms=1000, topic_data=topics)
        (topic,) = ask(broker, ApiKey.Produce, 9, body).responses
        assert topic.partition_responses[0].error_code == 0
