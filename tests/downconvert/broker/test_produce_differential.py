"""The same produce requests to Kafka 3.9.1 and to this broker: equal responses, equal logs.

Where the two differ on purpose it is said in REASONS.

Not here: what needs no other broker to be seen (test_produce.py, test_appending.py)."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import Log
from records import Codec, Record, TimestampType, build, build_marker
from records.batches.control import ControlRecordType
from records.formats import V0, V1, V2
from tests.damage import damaged, repaired, spliced
from tests.kafka_server import running

from .asking import ask, frame, parsed
from .writable import writable_broker

CREATE: Final = TimestampType.CREATE
NOW: Final = int(time.time())
NOW_MS: Final = NOW * 1000
HOUR: Final = 3_600_000

CONFIGS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "narrow": {
        "message.timestamp.before.max.ms": str(HOUR),
        "message.timestamp.after.max.ms": str(HOUR),
    },
    "small": {"max.message.bytes": "300"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
}
RECORDS: Final = [
    Record(0, NOW_MS, CREATE, b"k0", b"v0"),
    Record(1, NOW_MS + 5, CREATE, None, b"v1"),
    Record(2, NOW_MS - 7, CREATE, b"k2", None),
]
KEYED: Final = [RECORDS[0], Record(1, NOW_MS + 1, CREATE, b"", b"")]


def batch(records: list[Record] = KEYED, magic: int = V2, **fields: Any) -> bytes:
    return build(records, magic=magic, **fields)


def idempotent(sequence: int, epoch: int = 0, count: int = 2, producer: int = 7000) -> bytes:
    records = [Record(i, NOW_MS, CREATE, b"k") for i in range(count)]
    return build(
        records, magic=V2, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )


def cases() -> Iterator[tuple[str, int, bytes]]:
    """Name, version, records."""
    for codec in Codec:
        yield f"v2 {codec.name}", 9, batch(codec=codec)
        if codec is not Codec.ZSTD:
            for magic in (V0, V1):
                yield f"v{magic} {codec.name}", 2, batch(magic=magic, codec=codec)
    yield "keys are missing", 9, batch(RECORDS)
    yield "keys are missing, gzip", 9, batch(RECORDS, codec=Codec.GZIP)
    yield "keys are missing, v1", 2, batch(RECORDS, V1)
    yield "headers", 8, batch([Record(0, NOW_MS, CREATE, b"k", b"v", (("h", b"x"),))])
    yield "zstd before 7", 6, batch(codec=Codec.ZSTD)
    yield "nothing", 2, b""
    yield "nothing, newer", 9, b""
    yield "torn", 9, batch()[:-1]
    yield "torn, v1", 2, batch(magic=V1)[:-1]
    yield "torn second", 9, batch() + batch()[:-1]
    yield "two batches", 9, batch() + batch()
    yield "two batches, old request", 2, batch() + batch()
    yield "v2 in an old request", 1, batch()
    yield "v1 in a newer request", 3, batch(magic=V1)
    yield "v0 and v1", 2, batch(magic=V0) + batch(magic=V1)
    yield "two compressed v1", 2, batch(magic=V1, codec=Codec.GZIP) * 2
    yield "compressed and not, v1", 2, batch(magic=V1, codec=Codec.GZIP) + batch(magic=V1)
    yield "offsets of v1 from 1000 on", 2, batch([Record(1000, NOW_MS, CREATE, b"k")], V1)
    inner = [Record(5, NOW_MS, CREATE, b"k"), Record(9, NOW_MS, CREATE, b"k")]
    yield "offsets of compressed v1 with gaps", 2, batch(inner, V1, codec=Codec.GZIP)
    yield "offsets of compressed v0 from 5 on", 2, batch(inner, V0, codec=Codec.SNAPPY)
    wrapper = batch(magic=V1, codec=Codec.GZIP)
    yield "compressed v1 at offset 0", 2, damaged(wrapper, field="offset", to=0)
    good = batch()
    for field, to in (
        ("crc", 1),
        ("base_offset", 1),
        ("base_offset", -1),
        ("last_offset_delta", 5),
        ("last_offset_delta", -1),
        ("records_count", 3),
        ("records_count", 1),
        ("records_count", 0),
        ("records_count", -1),
        ("leader_epoch", 77),
        ("max_timestamp", 5),
        ("magic", 3),
        ("size", 13),
        ("size", 48),
        ("attributes", 0x08),
        ("attributes", 0x20),
        ("attributes", 0x80),
        ("base_sequence", 5),
    ):
        yield f"{field} {to}", 9, damaged(good, field=field, to=to)
    yield "count of a gzip batch", 9, damaged(batch(codec=Codec.GZIP), field="records_count", to=1)
    yield "bytes in a record", 9, repaired(spliced(good, 61, b"\x7f", drop=1))
    old = batch(magic=V1)
    yield "crc of v1", 2, damaged(old, field="crc", to=1)
    yield "append time of v1", 2, damaged(old, field="attributes", to=0x08)
    yield "append time of compressed v1", 2, damaged(wrapper, field="attributes", to=0x09)
    yield "magic of v1", 2, damaged(old, field="magic", to=3, crc="stale")
    marker = build_marker(ControlRecordType.COMMIT, offset=0, timestamp=NOW_MS, producer_id=1)
    yield "a marker", 9, marker
    yield "no timestamps", 9, batch([Record(0, -1, CREATE, b"k")])
    yield "of the past", 9, batch([Record(0, NOW_MS - 2 * HOUR, CREATE, b"k")])
    yield "of the past, v1", 2, batch([Record(0, NOW_MS - 2 * HOUR, CREATE, b"k")], V1)
    future = [KEYED[0], Record(1, NOW_MS + 2 * HOUR, CREATE, b"k")]
    yield "of the future", 9, batch(future)
    yield "of the future, lz4", 9, batch(future, codec=Codec.LZ4)
    large = [Record(i, NOW_MS, CREATE, b"k%d" % i, b"x" * 50) for i in range(10)]
    yield "large", 9, batch(large)
    yield "large, compressed", 9, batch(large, codec=Codec.GZIP)
    yield "large, v1", 2, batch(large, V1)
    yield "a sequence", 9, idempotent(0)
    yield "again", 9, idempotent(0)
    yield "the next", 9, idempotent(2)
    yield "and the next", 9, idempotent(4, count=3)
    yield "one is missing", 9, idempotent(8)
    yield "the one before again", 9, idempotent(2)
    yield "the first again", 9, idempotent(0)
    yield "a part of one again", 9, idempotent(4, count=2)
    yield "a new epoch in the middle", 9, idempotent(7, epoch=1)
    yield "a new epoch", 9, idempotent(0, epoch=1)
    yield "the old epoch", 9, idempotent(7, epoch=0)
    yield "the old epoch again", 9, idempotent(4, epoch=0, count=3)
    yield "unknown in the middle", 9, idempotent(50, producer=7001)
    yield "no sequence", 9, idempotent(-1, producer=7002)
    yield "to the last number", 9, idempotent(2**31 - 2, producer=7003)
    yield "from the first number on", 9, idempotent(0, producer=7003)


def different() -> Iterator[tuple[str, int, bytes]]:
    """Batches that we answer otherwise than Kafka, on purpose."""
    good = batch()
    yield "base_timestamp -1000", 9, damaged(good, field="base_timestamp", to=-1000)
    yield "attributes 1", 9, damaged(good, field="attributes", to=0x01)
    yield "attributes 7", 9, damaged(good, field="attributes", to=0x07)
    yield "gzip of no gzip", 9, repaired(spliced(batch(codec=Codec.GZIP), 61, b"????", drop=4))
    gap = [RECORDS[0], Record(2, NOW_MS, CREATE, b"k2")]
    yield (
        "offsets with a gap, gzip",
        9,
        damaged(batch(gap, codec=Codec.GZIP), field="last_offset_delta", to=1),
    )


REASONS: Final = {
    # v0 and v1 cannot hold this, so their readers could not get it.
    "base_timestamp -1000": ErrorCode.INVALID_TIMESTAMP,
    # Kafka says UNKNOWN_SERVER_ERROR of all these, as of a bug of its own.
    "attributes 1": ErrorCode.INVALID_RECORD,
    "attributes 7": ErrorCode.CORRUPT_MESSAGE,
    "gzip of no gzip": ErrorCode.INVALID_RECORD,
    "offsets with a gap, gzip": ErrorCode.NONE,  # put right, as Kafka does with v1
}


class Kafka:
    """Produce requests over a socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rb")

    def produce(self, version: int, body: Message) -> Message:
        request = frame(ApiKey.Produce, version, body)
        self._socket.sendall(len(request).to_bytes(4) + request)
        size = self._file.read(4)
        return parsed(ApiKey.Produce, version, size + self._file.read(int.from_bytes(size)))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def request(topic: str, data: bytes, acks: int = -1) -> Message:
    partition = Message(index=0, records=data)
    topics = [Message(name=topic, topic_id=bytes(16), partition_data=[partition])]
    return Message(acks=acks, timeout_ms=1000, topic_data=topics)


def said(response: Message) -> tuple[Any, ...]:
    """The fields of a response, without the error's text."""
    (topic,) = response.responses
    (one,) = topic.partition_responses
    return (
        ErrorCode(one.error_code).name,
        one.base_offset,
        one.log_append_time_ms >= 0,
        one.log_start_offset,
        [error.batch_index for error in one.record_errors],
    )


def kept(log: Log, *, with_times: bool) -> list[tuple[Any, ...]]:
    """Headers of batches, but for what depends on the compressor, and records."""
    time_of = int if with_times else bool
    headers: list[tuple[Any, ...]] = [
        (
            header.base_offset,
            header.last_offset,
            header.magic,
            header.codec,
            header.timestamp_type,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.records_count,
            time_of(header.max_timestamp),
        )
        for _, header in log.batches()
    ]
    records: list[tuple[Any, ...]] = [
        (r.offset, time_of(r.timestamp), r.key, r.value, r.headers) for r in log.records()
    ]
    return headers + records


def test_our_responses_and_records_equal_kafkas(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    kafkas = tmp_path / "kafka"
    with running(log_dir=kafkas) as server, writable_broker(tmp_path / "ours") as broker:
        kafka = Kafka(server.ports[0])
        for topic, config in CONFIGS.items():
            server.create_topic(topic, config=config)
            broker.topics.create(topic, 1, config, 0)
            differences = list(_differences(kafka, broker, topic))
            assert not differences, "\n".join(differences)
            partition = broker.topics.partition(topic, 0)
            assert partition is not None
            with_times = "message.timestamp.type" not in config
            with Log.open(kafkas / f"{topic}-0") as log:
                assert kept(partition.log, with_times=with_times) == kept(
                    log, with_times=with_times
                ), topic
        for name, version, data in different():
            body = request("plain", data)
            theirs, ours = kafka.produce(version, body), _ask(broker, version, body)
            assert said(theirs) != said(ours), name
            assert said(ours)[0] == REASONS[name].name
        kafka.close()


def _differences(kafka: Kafka, broker: Broker, topic: str) -> Iterator[str]:
    for name, version, data in cases():
        body = request(topic, data)
        theirs, ours = kafka.produce(version, body), _ask(broker, version, body)
        if said(theirs) != said(ours):
            yield f"{topic}, {name}, v{version}: {said(theirs)} from Kafka, {said(ours)} here"


def _ask(broker: Broker, version: int, body: Message) -> Message:
    return ask(broker, ApiKey.Produce, version, body, now=time.time())
