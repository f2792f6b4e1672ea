"""Requests of old clients, and message sets as they understand them."""

from downconvert.protocol.schemas import ApiKey, Message
from records import (
    Codec,
    ControlRecordType,
    MemoryRecords,
    Record,
    TimestampType,
    build,
    build_marker,
    read,
)

from .cluster import Through

START = 1_600_000_000_000  # milliseconds


def message_set(magic: int, *values: bytes, codec: Codec = Codec.NONE, key: bytes = b"k") -> bytes:
    """As a producer of this format sends it: offsets from 0 on."""
    kind = TimestampType.NONE if magic == 0 else TimestampType.CREATE
    records = [
        Record(offset, -1 if magic == 0 else START + offset, kind, key, value)
        for offset, value in enumerate(values)
    ]
    return bytes(build(records, magic=magic, codec=codec))


def produce(
    through: Through, version: int, records: bytes | None, acks: int = 1, partition: int = 0
) -> Message:
    """The response for the partition."""
    response = through.ask(ApiKey.Produce, version, produce_body(records, acks, partition))
    one: Message = response.responses[0].partition_responses[0]
    return one


def produce_body(records: bytes | None, acks: int = 1, partition: int = 0) -> Message:
    part = Message(index=partition, records=records)
    topics = [Message(name="t", partition_data=[part])]
    return Message(acks=acks, timeout_ms=1000, topic_data=topics)


def fetch_body(*offsets: int, max_bytes: int = 1 << 20, wait: int = 0) -> Message:
    """A fetch of partitions 0, 1, 2 and so on, from these offsets."""
    parts = [
        Message(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        for index, offset in enumerate(offsets)
    ]
    topics = [Message(topic="t", partitions=parts)]
    return Message(replica_id=-1, max_wait_ms=wait, min_bytes=1, max_bytes=1 << 25, topics=topics)


def fetch(through: Through, version: int, *offsets: int, **options: int) -> list[Message]:
    """The responses for partitions from 0 on."""
    response = through.ask(ApiKey.Fetch, version, fetch_body(*offsets, **options))
    parts: list[Message] = response.responses[0].partitions
    return parts


def records_of(part: Message) -> list[Record]:
    return list(read(MemoryRecords(part.records)))


def values_of(part: Message) -> list[bytes | None]:
    return [record.value for record in records_of(part)]


def marker(offset: int) -> bytes:
    """The end of an aborted transaction of producer 7."""
    kind = ControlRecordType.ABORT
    return build_marker(kind, producer_id=7, producer_epoch=0, offset=offset, timestamp=1)
