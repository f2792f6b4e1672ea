"""Compressed entries of a log: all ways to convert them give the same result."""

import random

import pytest

from downconvert import ConversionPolicy, convert, eager
from records import Codec, CorruptRecordsError, MemoryRecords, Record, TimestampType, build, read
from records.codecs import compress
from records.formats import BATCH_HEADER_SIZE, V0, V1
from tests.records.examples import batch, message, record, wrapper

from .channels import until_error


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("size", [5, 400_000])
def test_messages_before_a_damaged_one_inside_come_first_however_large_they_are(
    size: int, to_magic: int, target_codec: str
) -> None:
    inner = [message(V1, offset, value=bytes(size)) for offset in (0, 1, 1, 3)]
    conversion = convert(
        MemoryRecords(wrapper(V1, 13, b"".join(inner))),
        to_magic,
        policy=ConversionPolicy(recode={"gzip": target_codec}),
    )
    made: list[bytes] = []
    with pytest.raises(CorruptRecordsError, match="offset does not increase") as caught:
        made.extend(conversion)
    assert caught.value.inside == len(inner[0]) + len(inner[1])
    assert [record.offset for record in read(MemoryRecords(b"".join(made)))] == [10, 11]


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("size", [100, 150_000])
def test_kafka_sends_compressed_batches_below_the_offset_asked_for_as_well(
    size: int, magic: int
) -> None:
    """Whether the kernel converts them by itself, or they go through a window. Ours leaves out."""
    dice = random.Random(size)
    entries = [
        build([Record(n, 5, value=dice.randbytes(size))], magic=magic, codec=Codec.GZIP)
        for n in (7, 8, 9)
    ]
    log = MemoryRecords(b"".join(entries))
    for policy, expected in ((ConversionPolicy.kafka(), [7, 8, 9]), (ConversionPolicy(), [9])):
        found = eager(log, magic - 1, 9, policy)
        assert [one.offset for one in read(MemoryRecords(found))] == expected


@pytest.mark.parametrize("size", [100, 150_000])
def test_a_compressed_message_of_v0_has_no_time_whatever_its_attributes_say(size: int) -> None:
    """A bit that means LogAppendTime in v1 means nothing there."""
    records = [Record(7, -1, TimestampType.NONE, value=bytes(range(250)) * (size // 250 + 1))]
    plain = build(records, magic=0, codec=Codec.LZ4)
    marked = bytearray(plain)
    marked[17] |= 0x08
    assert eager(MemoryRecords(bytes(marked)), 0) == eager(MemoryRecords(plain), 0)


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
@pytest.mark.parametrize("size", [5, 400_000])
def test_bytes_after_the_last_record_are_damage_and_after_the_last_message_are_not(
    size: int, target_codec: str
) -> None:
    """A batch states how many records it has; a compressed message does not."""
    policy = ConversionPolicy(recode={"gzip": target_codec})
    body = record(0, None, bytes(size)) + b"more"
    data = compress(Codec.GZIP, body, magic=2, compression_level="fast")
    log = batch(compressed=data, records_count=1, attributes=Codec.GZIP)
    made: list[bytes] = []
    with pytest.raises(CorruptRecordsError, match="bytes left after the last record"):
        made.extend(convert(MemoryRecords(log), 1, policy=policy))
    assert [len(one.value or b"") for one in read(MemoryRecords(b"".join(made)))] == [size]
    inner = message(V1, 0, value=bytes(size)) + b"more"
    found = eager(MemoryRecords(wrapper(V1, 7, inner)), 0, 0, policy)
    assert [(one.offset, len(one.value or b"")) for one in read(MemoryRecords(found))] == [
        (7, size)
    ]


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
def test_a_compressed_batch_without_records_is_nothing(target_codec: str) -> None:
    """As compaction leaves it for its producer. Nothing is decompressed."""
    policy = ConversionPolicy(recode={"gzip": target_codec})
    for size in (0, 300_000):
        log = batch(compressed=bytes(size), records_count=0, attributes=Codec.GZIP)
        assert eager(MemoryRecords(log), 1, 0, policy) == b""


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
def test_a_compressed_message_shorter_than_a_batch_header_is_converted_at_the_end_of_a_log(
    target_codec: str,
) -> None:
    """The shortest compressed message has fewer bytes than the header of a batch."""
    entry = wrapper(V0, 3, message(V0, 3, None, None))
    assert len(entry) < BATCH_HEADER_SIZE
    policy = ConversionPolicy(recode={"gzip": target_codec})
    found = eager(MemoryRecords(entry), V0, 0, policy)
    assert [one.offset for one in read(MemoryRecords(found))] == [3]


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_in_an_older_message_is_damage_after_batches_with_zstd_too(magic: int) -> None:
    """Only batches of v2 have zstd."""
    value = random.Random(0).randbytes(150_000)
    newer = build([Record(0, 5, value=value)], magic=2, codec=Codec.ZSTD)
    older = message(magic, 1, attributes=Codec.ZSTD)
    policy = ConversionPolicy(recode={"zstd": "gzip"})
    made: list[bytes] = []
    with pytest.raises(CorruptRecordsError, match="codec does not exist") as caught:
        made.extend(convert(MemoryRecords(newer + older), 1, policy=policy))
    assert caught.value.position == len(newer)
    assert [one.offset for one in read(MemoryRecords(b"".join(made)))] == [0]


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
@pytest.mark.parametrize("size", [5, 400_000])
def test_a_v0_message_that_is_recoded_stays_a_v0_message(size: int, target_codec: str) -> None:
    """A client of v1 reads both formats, and a message of v0 has no timestamp to state."""
    old = [Record(n, -1, TimestampType.NONE, value=bytes(size)) for n in range(2)]
    log = build(old, magic=0, codec=Codec.GZIP)
    policy = ConversionPolicy(recode={"gzip": target_codec})
    found = MemoryRecords(eager(MemoryRecords(log), 1, 0, policy))
    assert {header.magic for header in found.batches()} == {0}
    assert list(read(found)) == old


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
@pytest.mark.parametrize("offsets", [(3, 1, 4), (1, 3, 3), (0, 3, 2, 4)])
@pytest.mark.parametrize("first_offset", [0, 12, 13, 14])
def test_offsets_inside_that_do_not_increase_are_the_same_damage_at_any_size(
    first_offset: int, offsets: tuple[int, ...], target_codec: str
) -> None:
    """Messages below the fetch offset are left out, whatever their order is."""
    policy = ConversionPolicy(recode={"gzip": target_codec})
    found = []
    for size in (5, 400_000):
        inner = b"".join(message(V1, offset, value=bytes(size)) for offset in offsets)
        conversion = convert(MemoryRecords(wrapper(V1, 14, inner)), 0, first_offset, policy)
        made, error = until_error(conversion)
        kept = [one.offset for one in read(MemoryRecords(made)) if one.offset >= first_offset]
        found.append((kept, getattr(error, "reason", "")))
    assert found[0] == found[1]


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
@pytest.mark.parametrize("size", [5, 400_000])
@pytest.mark.parametrize("append_time", [None, 777])
def test_a_v1_message_that_is_recoded_keeps_its_timestamps_at_any_size(
    append_time: int | None, size: int, target_codec: str
) -> None:
    """Only under LogAppendTime the outer timestamp is that of all messages inside."""
    kind = TimestampType.CREATE if append_time is None else TimestampType.LOG_APPEND
    records = [Record(n, 100 - n, value=bytes(size)) for n in range(3)]
    log = build(records, magic=1, codec=Codec.GZIP, timestamp_type=kind, append_time=append_time)
    policy = ConversionPolicy(recode={"gzip": target_codec})
    found = list(read(MemoryRecords(eager(MemoryRecords(log), 1, 0, policy))))
    assert found == list(read(MemoryRecords(log)))


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("size", [5, 100_000])
def test_plain_messages_begin_at_the_fetch_offset_even_without_trimming(
    size: int, magic: int
) -> None:
    """Only compressed messages may hold records before it."""
    log = build([Record(n, 5, value=bytes(size)) for n in range(6)], magic=magic, codec=Codec.GZIP)
    for target_codec, first in (("none", 4), ("snappy", 0)):
        policy = ConversionPolicy(trim_compressed=False, recode={"gzip": target_codec})
        found = read(MemoryRecords(eager(MemoryRecords(log), magic - 1, 4, policy)))
        assert [one.offset for one in found] == list(range(first, 6))
