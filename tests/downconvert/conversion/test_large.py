"""Records larger than a window are converted like any others, and never held."""

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert, eager
from records import (
    Codec,
    CorruptRecordsError,
    MemoryRecords,
    Record,
    TimestampType,
    build,
    read,
)
from records.units import KiB
from tests.records import examples

from .channels import sent, until_error

HEADERS = (("h", b"x" * 3000), ("", None), ("h", b""))
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def noise(size, seed=1):
    """Bytes that do not compress."""
    import random

    return random.Random(seed).randbytes(size)


def records_of(sizes, make=noise):
    return [
        Record(
            offset=100 + i,
            timestamp=1000 - i,
            key=None if i % 3 == 0 else make(size // 3, i),
            value=None if size == 0 else make(size, i),
            headers=HEADERS if i % 2 else (),
        )
        for i, size in enumerate(sizes)
    ]


def shown(records):
    return [(r.offset, r.timestamp, r.key, r.value) for r in records]


SIZES = [10, 700, 50_000, 0, 20, 3000, 16_384, 16_350, 5, 120_000, 1]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("chunk_size", [128, 1024, 16 * KiB, 1024 * KiB])
def test_records_of_all_sizes_come_out_whole_whatever_the_window(codec, to_magic, chunk_size):
    records = records_of(SIZES)
    batch = build(records, magic=2, codec=codec)
    policy = ConversionPolicy(chunk_size=chunk_size)
    converted = sent(LazyDownConvertRecords(MemoryRecords(batch), to_magic, 0, policy).to_send())
    expected = shown(records)
    if to_magic == 0:
        expected = [(offset, -1, key, value) for offset, _, key, value in expected]
    assert shown(read(MemoryRecords(converted))) == expected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_send_may_end_within_a_large_record(codec):
    """As for clients of Fetch 0-2, whose limits are hard."""
    policy = ConversionPolicy(recode={"lz4": "none"})
    records = MemoryRecords(build(records_of([100_000, 10, 200_000]), magic=2, codec=codec))
    lazy = LazyDownConvertRecords(records, 1, 0, policy)
    whole = sent(lazy.to_send())
    for size in 1, 50, 40_000, 100_100, lazy.size - 1, lazy.size:
        assert sent(lazy.to_send(size)) == whole[:size]


@pytest.mark.parametrize("to_magic", [0, 1])
def test_uncompressed_output_does_not_depend_on_the_window(to_magic):
    batch = build(records_of(SIZES), magic=2)
    made = {
        eager(MemoryRecords(batch), to_magic, 103, ConversionPolicy(chunk_size=size))
        for size in (128, 129, 1000, 16 * KiB, 1024 * KiB)
    }
    assert len(made) == 1


def test_a_large_record_under_log_append_time_has_the_batchs_time():
    batch = build(
        records_of(SIZES),
        magic=2,
        timestamp_type=TimestampType.LOG_APPEND,
        append_time=777,
    )
    converted = eager(MemoryRecords(batch), 1, 0, ConversionPolicy(chunk_size=1024))
    assert converted == eager(MemoryRecords(batch), 1, 0, ConversionPolicy(chunk_size=1024 * KiB))
    assert {r.timestamp for r in read(MemoryRecords(converted))} == {777}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
@pytest.mark.parametrize("chunk_size", [128, 1024, 16 * KiB])
def test_large_v1_messages_are_converted_to_v0(codec, chunk_size):
    records = records_of(SIZES)
    log = build(
        [Record(r.offset, r.timestamp, key=r.key, value=r.value) for r in records],
        magic=1,
        codec=codec,
    )
    policy = ConversionPolicy(chunk_size=chunk_size)
    converted = sent(LazyDownConvertRecords(MemoryRecords(log), 0, 0, policy).to_send())
    assert shown(read(MemoryRecords(converted))) == [
        (r.offset, -1, r.key, r.value) for r in records
    ]


def test_a_large_entry_of_an_older_format_is_copied_as_it_is():
    log = build([Record(offset=1, timestamp=2, value=noise(100_000))], magic=0)
    assert eager(MemoryRecords(log), 1) == log
    assert eager(MemoryRecords(log + log[:50_000]), 1) == log


@pytest.mark.parametrize("to_magic", [0, 1])
def test_wrappers_end_at_their_maximum_size(to_magic):
    records = [Record(offset=i, timestamp=i, value=b"v" * 1000) for i in range(200)]
    batch = build(records, magic=2, codec=Codec.GZIP)
    policy = ConversionPolicy(wrapper_size_max=20_000)
    converted = MemoryRecords(eager(MemoryRecords(batch), to_magic, 0, policy))
    assert [r.value for r in read(converted)] == [r.value for r in records]
    assert len(list(converted.batches())) == -(-200 // (20_000 // (1000 + (26, 34)[to_magic])))


def test_a_record_too_large_for_a_wrapper_gets_its_own_if_it_compresses():
    records = [
        Record(offset=0, timestamp=0, value=b"small"),
        Record(offset=1, timestamp=1, value=b"v" * 200_000),
        Record(offset=2, timestamp=2, value=noise(200_000)),
        Record(offset=3, timestamp=3, value=b"small"),
    ]
    batch = build(records, magic=2, codec=Codec.GZIP)
    policy = ConversionPolicy(wrapper_size_max=50_000)
    converted = MemoryRecords(eager(MemoryRecords(batch), 1, 0, policy))
    assert shown(read(converted)) == shown(records)
    assert [header.codec for header in converted.batches()] == [
        Codec.GZIP,
        Codec.GZIP,
        Codec.NONE,
        Codec.GZIP,
    ]
    lazy = LazyDownConvertRecords(MemoryRecords(batch), 1, 0, policy)
    assert lazy.size == converted.size


def test_kafkas_policy_makes_one_wrapper_of_any_batch():
    batch = build(records_of([10, 300_000, 20]), magic=2, codec=Codec.LZ4)
    converted = MemoryRecords(eager(MemoryRecords(batch), 1, 0, ConversionPolicy.kafka()))
    assert len(list(converted.batches())) == 1
    assert shown(read(converted)) == shown(records_of([10, 300_000, 20]))


def test_gaps_divide_a_wrapper_and_large_records_stay_in_order():
    records = [r for i, r in enumerate(records_of(SIZES)) if i % 4]
    batch = build(records, magic=2, codec=Codec.SNAPPY)
    converted = MemoryRecords(eager(MemoryRecords(batch), 1))
    assert shown(read(converted)) == shown(records)
    for header in converted.batches():
        inside = list(read(converted.slice(header.position, header.size)))
        assert inside[-1].offset - inside[0].offset == len(inside) - 1


def test_a_large_record_after_a_gap_begins_a_wrapper_even_without_a_size_limit():
    records = [
        Record(offset=offset, timestamp=0, value=noise(size, offset))
        for offset, size in ((1, 10), (2, 10), (7, 300_000), (8, 10), (20, 300_000))
    ]
    batch = build(records, magic=2, codec=Codec.GZIP)
    policy = ConversionPolicy(wrapper_size_max=None)
    converted = MemoryRecords(eager(MemoryRecords(batch), 1, 0, policy))
    assert shown(read(converted)) == shown(records)
    for header in converted.batches():
        inside = list(read(converted.slice(header.position, header.size)))
        assert inside[-1].offset - inside[0].offset == len(inside) - 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_fetch_offset_cuts_large_records_too(codec):
    batch = build(records_of(SIZES), magic=2, codec=codec)
    converted = eager(MemoryRecords(batch), 1, 103)
    assert [r.offset for r in read(MemoryRecords(converted))] == list(range(103, 111))


DAMAGE = {
    "value runs past its record": b"\x84\xb5\x18",
    "bytes left after the record's fields": b"\xfe\xb4\x18",
}


@pytest.mark.parametrize("reason", DAMAGE)
@pytest.mark.parametrize("chunk_size", [1024, 1024 * KiB])
def test_damage_in_a_large_record_has_the_same_error_and_position(reason, chunk_size):
    records = [
        Record(offset=0, timestamp=0, value=b"good"),
        Record(offset=1, timestamp=0, value=bytes(200_000)),
    ]
    batch = build(records, magic=2)
    bad = batch.replace(b"\x80\xb5\x18", DAMAGE[reason], 1)  # the size of the value
    assert bad != batch
    policy = ConversionPolicy(chunk_size=chunk_size)
    good, error = until_error(convert(MemoryRecords(bad), 1, 0, policy))
    assert isinstance(error, CorruptRecordsError)
    assert (error.reason, error.position) == (reason, 61 + 11)
    assert [r.value for r in read(MemoryRecords(good))] == [b"good"]


@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("size", [-1, -5, -(2**31)])
@pytest.mark.parametrize("chunk_size", [128, 1024 * KiB])
def test_any_negative_size_of_a_large_records_key_is_null(chunk_size, size, to_magic):
    """Kafka takes all of them for null, and writes -1 itself."""
    value = noise(50_000)
    body = (
        bytes(3) + examples.varint(size) + examples.varint(len(value)) + value + examples.varint(0)
    )
    log = MemoryRecords(examples.batch(examples.varint(len(body)) + body))
    policy = ConversionPolicy(chunk_size=chunk_size)
    converted = sent(LazyDownConvertRecords(log, to_magic, 0, policy).to_send())
    null = MemoryRecords(examples.batch(examples.record(0, None, value)))
    assert converted == sent(LazyDownConvertRecords(null, to_magic, 0, policy).to_send())
    assert [one.key for one in read(MemoryRecords(converted))] == [None]
