"""Clients and requests for tests of two mechanisms that meet, over real sockets.

Not here: the meetings (test_meetings_of_clients.py, test_meetings_of_records.py)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from downconvert.broker import Broker
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from records import MemoryRecords, Record, TimestampType, build, read
from records.formats import V2
from records.units import MiB

from .talking import Talk, serving_broker
from .writable import writable_broker

TOPIC: Final = "t"


@contextmanager
def serving(path: Path, *topics: str, **config: Any) -> Iterator[tuple[Broker, Server]]:
    with (
        writable_broker(path, *(topics or (TOPIC,)), **config) as broker,
        serving_broker(broker) as server,
    ):
        yield broker, server


def batch(count: int = 1, size: int = 10, **fields: Any) -> bytes:
    now = int(time.time() * 1000)
    made = [
        Record(n, now, TimestampType.CREATE, b"k%d" % n, bytes([65 + n % 26]) * size)
        for n in range(count)
    ]
    return build(made, magic=V2, **fields)


def produce(data: bytes, acks: int = 1, topic: str = TOPIC, **fields: Any) -> Message:
    topics = [Message(name=topic, partition_data=[Message(index=0, records=data)])]
    return Message(acks=acks, timeout_ms=1000, topic_data=topics, **fields)


def produced(talk: Talk, data: bytes, **fields: Any) -> int:
    """The offset at which it was written."""
    response = talk.ask(ApiKey.Produce, 8, produce(data, **fields))
    (one,) = response.responses[0].partition_responses
    assert one.error_code == 0
    offset: int = one.base_offset
    return offset


def fetch(offset: int, *, wait: int = 0, session: tuple[int, int] = (0, -1), **fields: Any) -> Any:
    asked = Message(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=64 * MiB,
        current_leader_epoch=-1,
        log_start_offset=-1,
    )
    topics = [] if fields.pop("nothing", False) else [Message(topic=TOPIC, partitions=[asked])]
    id_, epoch = session
    return Message(
        replica_id=-1,
        max_wait_ms=wait,
        min_bytes=1,
        max_bytes=64 * MiB,
        session_id=id_,
        session_epoch=epoch,
        topics=topics,
        **fields,
    )


def partition_of(response: Message) -> Message:
    (topic,) = response.responses
    (one,) = topic.partitions
    found: Message = one
    return found


def offsets_in(response: Message) -> list[int]:
    return [one.offset for one in read(MemoryRecords(bytes(partition_of(response).records)))]


def delete_topic(talk: Talk) -> None:
    response = talk.ask(ApiKey.DeleteTopics, 1, Message(topic_names=[TOPIC], timeout_ms=1000))
    assert not response.responses[0].error_code


def make_anew(talk: Talk) -> None:
    """Deletes the topic, and creates one of the same name."""
    delete_topic(talk)
    asked = Message(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    response = talk.ask(ApiKey.CreateTopics, 4, Message(topics=[asked], timeout_ms=1000))
    assert not response.topics[0].error_code


def delete_records(talk: Talk, before: int) -> None:
    asked = Message(name=TOPIC, partitions=[Message(partition_index=0, offset=before)])
    response = talk.ask(ApiKey.DeleteRecords, 1, Message(topics=[asked], timeout_ms=1000))
    assert response.topics[0].partitions[0].low_watermark == before
