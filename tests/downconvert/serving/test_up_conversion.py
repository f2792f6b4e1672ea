"""Old formats become the topic's, whichever that is."""

from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import xxhash

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from records import Codec, Record, TimestampType, build
from records.batches.wrapper import build_wrapper
from records.codecs import compress
from records.formats import V0, V1, V2
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.writable import writable_broker

NOW = 1_700_000_000.0
NOW_MS = 1_700_000_000_000
CREATE, LOG_APPEND = TimestampType.CREATE, TimestampType.LOG_APPEND
RECORDS = [Record(i, NOW_MS - i, CREATE, b"k%d" % i, b"v" * 20) for i in range(5)]
FORMATS = {V0: "0.9.0", V1: "0.10.2", V2: "3.0-IV1"}
OLD_CODECS = [codec for codec in Codec if codec is not Codec.ZSTD]


def send(broker: Broker, version: int, data: bytes) -> ErrorCode:
    partition = Message(index=0, records=data)
    body = Message(acks=1, timeout_ms=1, topic_data=[Message(name="t", partition_data=[partition])])
    (topic,) = ask(broker, ApiKey.Produce, version, body, now=NOW).responses
    return ErrorCode(topic.partition_responses[0].error_code)


def stored(broker: Broker) -> list[Record]:
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    return list(partition.log.records())


def batches(broker: Broker) -> list[tuple[int, Codec]]:
    partition = broker.topics.partition("t", 0)
    assert partition is not None
    return [(header.magic, header.codec) for _, header in partition.log.batches()]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("kept", FORMATS)
@pytest.mark.parametrize("magic", FORMATS)
def test_every_format_becomes_every_format(
    tmp_path: Path, magic: int, kept: int, codec: Codec
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"message.format.version": FORMATS[kept]})
        for _ in range(2):
            data = build(RECORDS, magic=magic, codec=codec)
            assert send(broker, 9 if magic == V2 else 2, data) is ErrorCode.NONE
        found = stored(broker)
        assert [record.offset for record in found] == list(range(10))
        assert [(r.key, r.value) for r in found] == [(r.key, r.value) for r in RECORDS] * 2
        has_times = V0 not in (magic, kept)
        times = [r.timestamp if has_times else -1 for r in RECORDS]
        assert [record.timestamp for record in found] == times * 2
        expected = (kept, codec)
        assert set(batches(broker)) == {expected}


@pytest.mark.parametrize("kept", [V1, V2])
@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", FORMATS)
def test_append_time_is_given_to_all_formats(
    tmp_path: Path, magic: int, codec: Codec, kept: int
) -> None:
    with writable_broker(tmp_path, "t") as broker:
        config = {
            "message.timestamp.type": "LogAppendTime",
            "message.format.version": FORMATS[kept],
        }
        broker.topics.configure("t", config)
        data = build(RECORDS, magic=magic, codec=codec)
        assert send(broker, 9 if magic == V2 else 2, data) is ErrorCode.NONE
        assert {(r.timestamp, r.timestamp_type) for r in stored(broker)} == {(NOW_MS, LOG_APPEND)}


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("kept", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_a_topic_s_codec_is_the_one_that_is_kept(tmp_path: Path, codec: Codec, kept: str) -> None:
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"compression.type": kept})
        headers = (("h", b"x"), ("h", None))
        records = [Record(0, 5, CREATE, None, b"v", headers), Record(1, 4, CREATE, b"", None)]
        assert send(broker, 9, build(records, magic=V2, codec=codec)) is ErrorCode.NONE
        assert stored(broker) == records
        expected = (
            codec if kept == "producer" else Codec[kept.upper().replace("UNCOMPRESSED", "NONE")]
        )
        assert batches(broker) == [(V2, expected)]


def test_lz4_frames_with_the_wrong_header_hash_are_read(tmp_path: Path) -> None:
    """Frames of producers before 0.10: the hash covers the magic number too."""
    inner = build(RECORDS, magic=V0)
    frame = bytearray(lz4.frame.compress(inner, block_linked=False, content_checksum=False))
    descriptor_end = 4 + 2 + (8 if frame[4] & 0x08 else 0)
    frame[descriptor_end] = xxhash.xxh32(bytes(frame[:descriptor_end])).intdigest() >> 8 & 0xFF
    data = build_wrapper(bytes(frame), magic=V0, offset=4, attributes=Codec.LZ4, timestamp=-1)
    with writable_broker(tmp_path, "t") as broker:
        assert send(broker, 0, data) is ErrorCode.NONE
        assert [record.value for record in stored(broker)] == [r.value for r in RECORDS]


@pytest.mark.parametrize("kept", [V0, V1])
def test_fields_that_an_old_format_lacks_are_refused(tmp_path: Path, kept: int) -> None:
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"message.format.version": FORMATS[kept]})

        def refused(*headers: tuple[str, bytes], **fields: Any) -> ErrorCode:
            record = Record(0, 1, CREATE, b"k", b"v", headers)
            return send(broker, 9, build([record], magic=V2, **fields))

        assert refused(("h", b"")) is ErrorCode.INVALID_RECORD
        assert refused(codec=Codec.ZSTD) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        producer: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
        assert refused(**producer) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert stored(broker) == []


def test_a_damaged_message_in_a_compressed_one_is_refused(tmp_path: Path) -> None:
    inner = bytearray(build(RECORDS, magic=V1))
    inner[-1] ^= 1
    value = compress(Codec.GZIP, inner, magic=V1, compression_level="fast")
    data = build_wrapper(value, magic=V1, offset=4, attributes=Codec.GZIP, timestamp=NOW_MS)
    with writable_broker(tmp_path, "t") as broker:
        assert send(broker, 2, data) is ErrorCode.CORRUPT_MESSAGE
        assert stored(broker) == []


@pytest.mark.parametrize("magics", [(V0, V1), (V1, V0)])
@pytest.mark.parametrize("kept", FORMATS)
def test_a_message_of_another_format_in_a_compressed_one_is_refused(
    tmp_path: Path, kept: int, magics: tuple[int, int]
) -> None:
    """As by Kafka, whichever format the topic has, and even if only the last one is."""
    outer, inner = magics
    messages = build(RECORDS[:1], magic=outer) + build(RECORDS[1:2], magic=inner)
    value = compress(Codec.GZIP, messages, magic=outer, compression_level="fast")
    data = build_wrapper(value, magic=outer, offset=1, attributes=Codec.GZIP, timestamp=NOW_MS)
    with writable_broker(tmp_path, "t") as broker:
        broker.topics.configure("t", {"message.format.version": FORMATS[kept]})
        assert send(broker, 2, data) is ErrorCode.INVALID_RECORD
        assert stored(broker) == []


@pytest.mark.parametrize(
    ("codec", "low", "high"), [("gzip", "1", "9"), ("lz4", "9", "12"), ("zstd", "-50", "19")]
)
def test_a_topic_s_level_says_how_well_it_is_compressed(
    tmp_path: Path, codec: str, low: str, high: str
) -> None:
    words = [f"{number * 7919 % 1000} of {number * 104729 % 997}" for number in range(3000)]
    records = [Record(0, NOW_MS, CREATE, b"k", " ".join(words).encode())]
    sizes = []
    with writable_broker(tmp_path, "t") as broker:
        log = broker.topics["t"].partitions[0].log
        for level in (low, high):
            before = sum(segment.size for segment in log.segments)
            own = {"compression.type": codec, f"compression.{codec}.level": level}
            broker.topics.configure("t", own)
            assert send(broker, 9, build(records, magic=V2)) is ErrorCode.NONE
            assert stored(broker)[-1].value == records[0].value
            sizes.append(sum(segment.size for segment in log.segments) - before)
    assert sizes[1] < 0.95 * sizes[0]
