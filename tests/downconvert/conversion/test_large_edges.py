"""Rare fields of large records and messages are read as those of small ones."""

import random
from pathlib import Path

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert, eager
from downconvert.conversion.streamed import large
from downconvert.conversion.streamed.oversize import CHANGED
from records import (
    Codec,
    CorruptRecordsError,
    FileRecords,
    MemoryRecords,
    Record,
    TimestampType,
    build,
    read,
)
from records.codecs import compress
from records.formats import MESSAGE_HEAD, SIZE_FIELD, V0, V1, V2
from records.steps import at_once
from records.units import KiB, MiB
from tests.records import examples

from .channels import sent, until_error

CHUNK_SIZES = [128, 1024, MiB]  # a record of 50 KB is large for the first two
VALUE = random.Random(1).randbytes(50_000)


def outcome(log: bytes, to_magic: int, chunk_size: int, first_offset: int = 0) -> tuple[str, ...]:
    """The converted bytes, and the error after them with its place."""
    policy = ConversionPolicy(chunk_size=chunk_size)
    good, error = until_error(convert(MemoryRecords(log), to_magic, first_offset, policy))
    return good.hex(), str(error)


def record(key_size: bytes, key: bytes, value_size: bytes, value: bytes) -> bytes:
    """A record with any bytes for its sizes."""
    body = bytes(3) + key_size + key + value_size + value + examples.varint(0)
    return examples.varint(len(body)) + body


@pytest.mark.parametrize("to_magic", [0, 1])
@pytest.mark.parametrize("size", [-1, -5, -(2**31)])
def test_any_negative_size_of_a_large_records_value_is_null(size: int, to_magic: int) -> None:
    """Kafka takes all of them for null, and writes -1 itself."""
    key_size = examples.varint(len(VALUE))
    log = examples.batch(record(key_size, VALUE, examples.varint(size), b""))
    null = examples.batch(examples.record(0, VALUE, None))
    for chunk_size in CHUNK_SIZES:
        assert outcome(log, to_magic, chunk_size) == outcome(null, to_magic, MiB)


def test_another_entry_in_place_of_a_large_message_is_damage(tmp_path: Path) -> None:
    """It is written between the step that finds the message and the one that converts it."""
    before = b"".join(build([Record(n, 0, value=b"v" * 100)], magic=V1) for n in range(2000))
    large, path = Record(2000, 0, value=8 * VALUE), tmp_path / "log"
    path.write_bytes(before + build([large], magic=V1))
    with FileRecords.open(path) as log:
        steps = LazyDownConvertRecords.in_steps(log, V0)
        next(steps)
        with path.open("r+b") as file:
            file.seek(len(before))
            file.write(build([large], magic=V2))
        lazy = at_once(steps)
    assert isinstance(lazy.damage, CorruptRecordsError)
    assert (lazy.damage.reason, lazy.damage.position) == (CHANGED, len(before))


@pytest.mark.parametrize("last", [0x10, 0x70])
def test_bits_of_a_size_beyond_the_32nd_are_ignored_in_large_records(last: int) -> None:
    """Kafka shifts them out."""
    short = examples.varint(len(VALUE))
    long = bytes(byte | 0x80 for byte in short).ljust(4, b"\x80") + bytes([last])
    log = examples.batch(record(examples.varint(-1), b"", long, VALUE))
    plain = examples.batch(record(examples.varint(-1), b"", short, VALUE))
    for chunk_size in CHUNK_SIZES:
        assert outcome(log, 1, chunk_size) == outcome(plain, 1, MiB)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("to_magic", [0, 1])
def test_log_append_time_of_large_records_depends_on_the_format_alone(
    to_magic: int, codec: Codec
) -> None:
    """A message of v0 has no timestamp, so its attributes do not state a kind of it."""
    records = [Record(n, 5, value=VALUE * 6) for n in range(2)]
    log = build(
        records, magic=2, codec=codec, timestamp_type=TimestampType.LOG_APPEND, append_time=777
    )
    policy = ConversionPolicy(recode={"gzip": "none"})
    converted = eager(MemoryRecords(log), to_magic, 0, policy)
    headers = list(MemoryRecords(converted).batches())
    kinds = [TimestampType.NONE, TimestampType.LOG_APPEND]
    found = [(one.timestamp, one.timestamp_type) for one in read(MemoryRecords(converted))]
    assert found == [((-1, 777)[to_magic], kinds[to_magic])] * 2
    assert [one.attributes for one in headers] == [8 * to_magic] * 2


@pytest.mark.parametrize("timestamp", [-1, -2, -(2**63)])
@pytest.mark.parametrize("first_offset", [0, 8])
def test_a_negative_timestamp_of_a_large_v1_message_is_the_same_damage(
    timestamp: int, first_offset: int
) -> None:
    """-1 means that there is none."""
    good, after = examples.message(V1, 6), examples.message(V1, 8)
    log = good + examples.message(V1, 7, None, VALUE, timestamp=timestamp) + after
    expected = outcome(log, V0, MiB, first_offset)
    for chunk_size in CHUNK_SIZES:
        assert outcome(log, V0, chunk_size, first_offset) == expected
    assert ("negative timestamp" in expected[1]) == (timestamp < -1 and not first_offset)


@pytest.mark.parametrize("timestamp", [-1, -2])
@pytest.mark.parametrize("size", [10, 300_000])
def test_log_append_time_replaces_any_timestamp_inside_a_message(size: int, timestamp: int) -> None:
    """The messages inside keep the time of their producer, which nobody reads."""
    inner = [examples.message(V1, n, None, bytes(size), timestamp=timestamp) for n in (0, 1)]
    log = examples.wrapper(V1, 9, b"".join(inner), timestamp=555, attributes=8)
    policy = ConversionPolicy(recode={"gzip": "none"})
    found = list(read(MemoryRecords(eager(MemoryRecords(log), V0, 0, policy))))
    assert [(one.offset, len(one.value or b"")) for one in found] == [(8, size), (9, size)]


def test_a_large_message_that_is_copied_allows_no_other_codec_after_it() -> None:
    """lz4 is copied in messages of v1, and compressed again in messages of v0."""
    large = build([Record(1, 5, value=VALUE * 6)], magic=1, codec=Codec.LZ4)
    old = Record(2, -1, TimestampType.NONE, value=b"v")
    log = MemoryRecords(large + build([old], magic=0, codec=Codec.LZ4) + large)
    for chunk_size in (1024, 16 * KiB, MiB):
        lazy = LazyDownConvertRecords(log, 1, 0, ConversionPolicy(chunk_size=chunk_size))
        headers = list(MemoryRecords(sent(lazy.to_send())).batches())
        assert [one.codec for one in headers] == [Codec.LZ4, Codec.GZIP, Codec.LZ4]
        assert [one.magic for one in headers] == [1, 0, 1]


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("size", [-1, -5, -(2**31)])
def test_any_negative_size_in_a_large_v1_message_is_null(size: int, field: str) -> None:
    """The message of v0 states -1."""
    key, value = (None, VALUE) if field == "key" else (VALUE, None)
    null = examples.message(V1, 7, key, value)
    at = MESSAGE_HEAD[V1].size + (0 if field == "key" else SIZE_FIELD.size + len(VALUE))
    log = examples.damaged(null, at=at, bytes=SIZE_FIELD.pack(size))
    for chunk_size in CHUNK_SIZES:
        assert outcome(log, V0, chunk_size) == outcome(null, V0, MiB)


@pytest.mark.parametrize("target_codec", ["none", "snappy"])
@pytest.mark.parametrize("size", [10, 300_000])
def test_bytes_after_the_value_of_a_message_inside_are_skipped(
    size: int, target_codec: str
) -> None:
    """The size of a message may be larger than its fields."""
    first = examples.message(V1, 0, None, bytes(size))
    head = MESSAGE_HEAD[V1].unpack_from(first)
    longer = MESSAGE_HEAD[V1].pack(head[0], head[1] + 3, *head[2:]) + first[34 - 8 :] + b"abc"
    inner = examples.with_checksum(longer) + examples.message(V1, 1)
    policy = ConversionPolicy(recode={"gzip": target_codec})
    log = MemoryRecords(examples.wrapper(V1, 9, inner))
    found = read(MemoryRecords(eager(log, V0, 0, policy)))
    assert [(one.offset, len(one.value or b"")) for one in found] == [(8, size), (9, 1)]


HEADER_DAMAGE = {
    "more headers than bytes": examples.varint(1),
    "negative header count": examples.varint(-1),
    "header key is null": examples.varint(1) + examples.varint(-1) + b"\0",
    "header key runs past its record": examples.varint(1) + examples.varint(9) + b"ab",
    "header value runs past its record": examples.varint(1) + b"\2k" + examples.varint(9) + b"ab",
    "record ends before its fields": examples.varint(1) + b"\2k",
    "bytes left after the record's fields": examples.varint(1) + b"\2k\2vmore",
    "": examples.varint(2) + b"\2k\2v" + b"\2k" + examples.varint(-5),
}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("reason", HEADER_DAMAGE)
def test_damaged_headers_of_a_large_record_are_the_same_damage(reason: str, codec: Codec) -> None:
    """A record is checked to its last byte, though headers are not sent."""
    value = VALUE * 6
    body = b"\0\0\2" + examples.varint(-1) + examples.varint(len(value)) + value
    body += HEADER_DAMAGE[reason]
    records = examples.record(0) + examples.varint(len(body)) + body
    data = compress(codec, records, magic=2, compression_level="fast") if codec else records
    log = examples.batch(compressed=data, records_count=2, attributes=codec)
    for chunk_size in CHUNK_SIZES:
        policy = ConversionPolicy(chunk_size=chunk_size, recode={"gzip": "none"})
        good, error = until_error(convert(MemoryRecords(log), V1, 0, policy))
        assert getattr(error, "reason", "") == reason
        assert len(list(read(MemoryRecords(good)))) == (1 if reason else 2)


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
def test_a_large_record_after_a_recompressed_batch_has_its_own_bytes(chunk_size: int) -> None:
    """Both are converted one after the other, without a pause."""
    records = [Record(n, 5, value=VALUE * 6) for n in range(4)]
    codecs = [Codec.GZIP, Codec.NONE, Codec.ZSTD, Codec.NONE]
    pairs = zip(records, codecs, strict=True)
    log = b"".join(build([one], magic=2, codec=codec) for one, codec in pairs)
    policy = ConversionPolicy(chunk_size=chunk_size)
    assert list(read(MemoryRecords(eager(MemoryRecords(log), V1, 0, policy)))) == records


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
@pytest.mark.parametrize("first_offset", [6, 7, 8])
def test_a_large_v1_message_at_the_fetch_offset_is_sent(first_offset: int, chunk_size: int) -> None:
    """Only messages below it are left out."""
    log = b"".join(examples.message(V1, n, None, VALUE) for n in (6, 7, 8))
    policy = ConversionPolicy(chunk_size=chunk_size)
    found = read(MemoryRecords(eager(MemoryRecords(log), V0, first_offset, policy)))
    assert [one.offset for one in found] == list(range(first_offset, 9))


@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("to_magic", [0, 1])
def test_a_compressed_message_states_log_append_time_if_its_format_has_it(
    to_magic: int, size: int
) -> None:
    """The bit has no meaning in v0."""
    records = [Record(n, 5, value=bytes(size)) for n in range(2)]
    kind = TimestampType.LOG_APPEND
    log = build(records, magic=2, codec=Codec.GZIP, timestamp_type=kind, append_time=777)
    converted = MemoryRecords(eager(MemoryRecords(log), to_magic))
    assert {one.attributes for one in converted.batches()} == {Codec.GZIP | 8 * to_magic}


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("offset", [6, 7])
def test_a_large_inner_message_at_the_offset_before_it_is_damage(offset: int, codec: str) -> None:
    records = [Record(7, 5, value=b"v"), Record(offset, 5, value=bytes(200_000))]
    log = build(records, magic=V1, codec=Codec.GZIP, base_offset=0)
    policy = ConversionPolicy(recode={"gzip": codec})
    good, error = until_error(convert(MemoryRecords(log), V0, 0, policy))
    assert isinstance(error, CorruptRecordsError)
    assert "offset does not increase" in error.reason
    assert [one.value for one in read(MemoryRecords(good))] == [b"v"]


@pytest.mark.parametrize("key", ["", "k", "ke"])
def test_many_small_headers_of_a_large_record_are_skipped(key: str) -> None:
    """They are read byte by byte, and more bytes than are read ahead."""
    headers = ((key, b""),) * 1000
    log = build([Record(0, 5, value=VALUE, headers=headers), Record(1, 5, value=b"v")], magic=2)
    whole = outcome(log, V1, MiB)
    assert whole == (whole[0], "None")
    assert outcome(log, V1, 1024) == whole


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("excess", [0, 1])
def test_a_large_record_may_have_exactly_the_size_of_the_largest_message(
    excess: int, magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smaller limit stands for that of 2 GiB."""
    value = bytes(100_000)
    data = MemoryRecords(build([Record(0, 5, value=value)], magic=magic))
    monkeypatch.setattr(large, "SIZE_MAX", 14 + len(value) - excess)  # of v0, after its size field
    good, error = until_error(convert(data, 0))
    assert bool(good) == (not excess)
    assert (error is None) == (not excess)
    assert not excess or "record is too large for a message" in str(error)
