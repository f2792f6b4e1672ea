"""Reading records of every format: we read the same records as Kafka."""

import contextlib
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from records import (
    BatchHeader,
    CorruptRecordsError,
    FileRecords,
    MemoryRecords,
    TimestampType,
    build,
)
from records.batches.columns import AT, FIELDS
from records.batches.reader import Record, read, read_batch, read_rows
from records.files.source import TRUNCATED, Records
from records.files.window import WINDOW_SIZE
from records.formats import TIMESTAMP_TYPE_NAMES, V0, V1, V2
from tests import corpus
from tests.records.examples import (
    DELETE_HORIZON,
    GAPS,
    TWO_RECORDS,
    batch,
    damaged,
    message,
    record,
    varint,
    wrapper,
)
from tests.records.reading import GZIP, LOG_APPEND, ORIGIN, all_records, gzipped, until_damage

SIZED = ("offset", "timestamp", "key_size", "value_size")

# --- everything that Kafka wrote


@pytest.mark.parametrize("kind", corpus.kinds())
def test_batches_and_records_are_those_that_kafka_reads(kind: str) -> None:
    for name in corpus.of_kind(kind):
        records = MemoryRecords(corpus.segment(name))
        lines: list[dict[str, Any]] = []
        for header in records.batches():
            found = [as_line(record) for record in read_batch(records, header)]
            lines += [{"batch": batch_line(header, found)}, *found]
        assert lines == corpus.records(name), name


def test_a_file_reads_as_memory_does(tmp_path: Path) -> None:
    for name in corpus.inputs():
        path = tmp_path / f"{name}.log"
        path.write_bytes(corpus.segment(name))
        with FileRecords.open(path) as log:
            assert list(read(log)) == all_records(corpus.segment(name))


def test_rows_of_memory_are_those_of_a_file(tmp_path: Path) -> None:
    path, count = tmp_path / "0.log", 0
    for name in corpus.inputs():
        path.write_bytes(corpus.segment(name))
        with FileRecords.open(path) as log:
            held = MemoryRecords(corpus.segment(name))
            for header in log.batches():
                if header.magic == V2:
                    assert rows_of(held, header) == rows_of(log, header)
                    count += header.position > 0
    assert count > 10


def rows_of(records: Records, header: BatchHeader) -> list[tuple[int, ...]] | str:
    """Offset, timestamp and sizes of each record, or the error."""
    found: list[tuple[int, ...]] = []
    try:
        for rows in read_rows(records, header):
            with memoryview(rows).cast("q") as fields:
                columns = [fields[AT[name] :: FIELDS].tolist() for name in SIZED]
            found += zip(*columns, strict=True)
    except CorruptRecordsError as error:
        return str(error)
    return found


def batch_line(header: BatchHeader, found: list[dict[str, Any]]) -> dict[str, Any]:
    # Only the first record tells the base offset of a compressed message.
    base = found[0]["offset"] if header.magic < 2 else header.base_offset
    return {
        "position": header.position,
        "size": header.size,
        "magic": header.magic,
        "base_offset": base,
        "last_offset": header.last_offset,
        "codec": header.codec.name.lower(),
        "timestamp_type": TIMESTAMP_TYPE_NAMES[header.timestamp_type],
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "leader_epoch": header.leader_epoch,
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def as_line(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": in_hex(record.key),
        "value": in_hex(record.value),
        "headers": [[key, in_hex(value)] for key, value in record.headers],
    }


def in_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


# --- records of v2


@pytest.mark.parametrize(("magic", "codec"), TWO_RECORDS)
def test_the_examples_of_kafkas_own_test_are_read(magic: int, codec: str) -> None:
    first, second = all_records(TWO_RECORDS[magic, codec])
    assert (first.offset, first.key, first.value) == (0, b"key1", b"value1")
    assert (second.offset, second.key, second.value) == (1, b"key2", b"value2")
    times = [first.timestamp, second.timestamp]
    assert times == ([-1, -1] if magic == V0 else [283843, 1234])
    kind = TimestampType.NONE if magic == V0 else TimestampType.CREATE
    assert {first.timestamp_type, second.timestamp_type} == {kind}


def test_gaps_in_the_offsets_nulls_and_headers_are_read() -> None:
    create = TimestampType.CREATE
    assert all_records(GAPS) == [
        Record(10, 100, create, b"k1", b"v1"),
        Record(12, 101, create, None, b"v2", (("h", b"x"),)),
        Record(13, 99, create, b"k3", None),
    ]


def test_empty_keys_and_values_are_not_null() -> None:
    (empty,) = all_records(batch(record(0, b"", b"", headers=[(b"", b"")])))
    assert (empty.key, empty.value, empty.headers) == (b"", b"", (("", b""),))
    (null,) = all_records(batch(record(0, None, None, headers=[(b"", None)])))
    assert (null.key, null.value, null.headers) == (None, None, (("", None),))


def test_header_keys_may_repeat_and_keep_their_order() -> None:
    headers = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]
    (found,) = all_records(batch(record(0, headers=headers)))
    assert found.headers == (("a", b"1"), ("b", b"2"), ("a", b"3"))


def test_invalid_utf_8_in_a_header_key_can_be_restored() -> None:
    key = "ü".encode() + b"\xff\xfe"
    (found,) = all_records(batch(record(0, headers=[(key, None)])))
    assert found.headers[0][0].encode("utf-8", "surrogateescape") == key


def test_long_headers_are_read() -> None:
    headers = [(b"k" * 300, b"v" * 20_000), (b"l" * 127, None)]
    (found,) = all_records(batch(record(0, headers=headers)))
    assert found.headers == (("k" * 300, b"v" * 20_000), ("l" * 127, None))


def test_under_log_append_time_every_record_has_the_brokers_time() -> None:
    entry = batch(
        record(0, timestamp_delta=5),
        record(1, timestamp_delta=9),
        attributes=LOG_APPEND,
        max_timestamp=777,
    )
    found = all_records(entry)
    assert [record.timestamp for record in found] == [777, 777]
    assert {record.timestamp_type for record in found} == {TimestampType.LOG_APPEND}


def test_timestamps_are_relative_to_the_delete_horizon_if_there_is_one() -> None:
    assert [record.timestamp for record in all_records(DELETE_HORIZON)] == [50, 150]


def test_sequence_numbers_count_from_the_base_and_wrap() -> None:
    entry = batch(record(0), record(3), base_sequence=2**31 - 3, producer_id=1)
    assert [record.sequence for record in all_records(entry)] == [2**31 - 3, 0]
    assert [record.sequence for record in all_records(batch(record(0)))] == [-1]
    large = record(0, None, bytes(200_000)), record(3, None, bytes(10))
    entry = batch(*large, base_sequence=2**31 - 3, producer_id=1)  # larger than is read at once
    assert [record.sequence for record in all_records(entry)] == [2**31 - 3, 0]


@pytest.mark.parametrize("attributes", [0, GZIP])
def test_a_batch_that_compaction_emptied_has_no_records(attributes: int) -> None:
    assert all_records(batch(attributes=attributes, last_offset_delta=4)) == []


def test_control_records_are_read_only_from_their_own_batch() -> None:
    records = MemoryRecords(GAPS + batch(record(0, b"\0\0\0\1"), attributes=0x30) + GAPS)
    assert len(list(read(records))) == 6
    _, control, _ = records.batches()
    assert [record.key for record in read_batch(records, control)] == [b"\0\0\0\1"]


GOOD = record(0, b"key", b"value of the first")
DAMAGED_RECORDS = {
    "batch ends before its last record": b"",
    "varint is too long": b"\xff\xff\xff\xff\xff\x01",
    "negative record size": varint(-1) + bytes(10),
    "record runs past its batch": varint(100) + bytes(10),
    "record ends before its fields": varint(3) + bytes(3),
    "key runs past its record": varint(8) + b"\0\0\0" + varint(60) + bytes(4),
    "value runs past its record": varint(8) + b"\0\0\0" + varint(-1) + varint(60) + bytes(3),
    "negative header count": varint(6) + b"\0\0\0\1\1" + varint(-1),
    "more headers than bytes": varint(7) + b"\0\0\0\1\1" + varint(9) + b"\0",
    "header key is null": varint(8) + b"\0\0\0\1\1" + varint(1) + varint(-1) + b"\0",
    "header key runs past its record": varint(8) + b"\0\0\0\1\1" + varint(1) + varint(9) + b"\0",
    "header value runs past its record": varint(8) + b"\0\0\0\1\1\2\0" + varint(9),
    "bytes left after the record's fields": varint(8) + b"\0\0\0\1\1\0\0\0",
}


@pytest.mark.parametrize(("reason", "second"), list(DAMAGED_RECORDS.items()))
@pytest.mark.parametrize("compressed", [False, True])
def test_damage_in_a_record_comes_after_the_good_ones_and_names_its_first_byte(
    reason: str, second: bytes, compressed: bool
) -> None:
    make = gzipped if compressed else batch
    count, error = until_damage(GAPS + make(GOOD, second))
    assert (count, error.reason) == (4, reason)
    if compressed:
        assert (error.position, error.inside) == (ORIGIN + len(GAPS), len(GOOD))
    else:
        assert (error.position, error.inside) == (ORIGIN + len(GAPS) + 61 + len(GOOD), None)


@pytest.mark.parametrize("compressed", [False, True])
def test_more_records_than_the_header_counts_are_damage(compressed: bool) -> None:
    make = gzipped if compressed else batch
    count, error = until_damage(make(GOOD, record(1), records_count=1))
    assert (count, error.reason) == (1, "bytes left after the last record")
    assert error.inside == (len(GOOD) if compressed else None)
    assert error.position == (ORIGIN if compressed else ORIGIN + 61 + len(GOOD))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_negative_count_is_damage(compressed: bool) -> None:
    make = gzipped if compressed else batch
    count, error = until_damage(make(GOOD, records_count=-1))
    assert (count, error.reason, error.position) == (0, "negative record count", ORIGIN)


def test_a_count_that_the_bytes_cannot_hold_is_damage_at_once() -> None:
    count, error = until_damage(batch(GOOD, records_count=1000))
    assert (count, error.reason, error.position) == (0, "more records than bytes", ORIGIN)


def test_a_count_that_compressed_bytes_do_not_hold_is_damage_at_their_end() -> None:
    count, error = until_damage(gzipped(GOOD, records_count=2**31 - 1))
    assert (count, error.reason) == (1, "batch ends before its last record")
    assert (error.position, error.inside) == (ORIGIN, len(GOOD))


def test_invalid_compressed_data_is_damage_at_the_batch() -> None:
    count, error = until_damage(batch(compressed=b"no gzip", attributes=GZIP, records_count=1))
    assert (count, error.position, error.inside) == (0, ORIGIN, None)


# --- checksums


@pytest.mark.parametrize("entry", [GAPS, message(V0, 0), message(V1, 0), gzipped(GOOD)])
def test_a_wrong_checksum_is_damage_before_the_first_record(entry: bytes) -> None:
    wrong = bytearray(entry)
    wrong[17 if entry[16] == 2 else 12] ^= 1
    count, error = until_damage(wrong)
    assert (count, error.reason, error.position) == (0, "checksum does not match", ORIGIN)
    assert all_records(wrong, verify=False) == all_records(entry)


# --- v0 and v1


def test_messages_have_the_timestamp_type_in_their_attributes() -> None:
    (none,) = all_records(message(V0, 3))
    assert (none.offset, none.timestamp, none.timestamp_type) == (3, -1, TimestampType.NONE)
    (create,) = all_records(message(V1, 3, timestamp=4))
    assert (create.timestamp, create.timestamp_type) == (4, TimestampType.CREATE)
    (append,) = all_records(message(V1, 3, timestamp=4, attributes=LOG_APPEND))
    assert (append.timestamp, append.timestamp_type) == (4, TimestampType.LOG_APPEND)


@pytest.mark.parametrize("magic", [V0, V1])
def test_null_and_empty_of_a_message_are_distinguished(magic: int) -> None:
    null, empty = all_records(message(magic, 0, None, None) + message(magic, 1, b"", b""))
    assert (null.key, null.value, null.headers, null.sequence) == (None, None, (), -1)
    assert (empty.key, empty.value) == (b"", b"")


def test_any_negative_size_in_a_message_is_null() -> None:
    (found,) = all_records(damaged(message(V0, 0, None, b"v"), at=18, bytes=b"\x80\0\0\0"))
    assert (found.key, found.value) == (None, b"v")


@pytest.mark.parametrize(
    ("at", "reason"), [(18, "key runs past its message"), (23, "value runs past its message")]
)
def test_a_size_beyond_the_message_is_damage(at: int, reason: str) -> None:
    count, error = until_damage(GAPS + damaged(message(V0, 0), at=at, bytes=b"\0\0\0\x7f"))
    assert (count, error.reason, error.position) == (3, reason, ORIGIN + len(GAPS))


# --- windows


@pytest.fixture(params=["plain", "compressed"])
def log_larger_than_windows(request: pytest.FixtureRequest) -> tuple[bytes, list[bytes]]:
    """Records small and large, across the ends of windows, and their values."""
    sizes = [10, 1000, WINDOW_SIZE - 1, WINDOW_SIZE, 4 * WINDOW_SIZE + 5, 3, 77] * 3
    sizes += [n % 513 for n in range(2000)]
    values = [random.Random(size).randbytes(10) * (size // 10 + 1) for size in sizes]
    make = gzipped if request.param == "compressed" else batch
    return make(*(record(n, None, value) for n, value in enumerate(values))), values


def test_records_across_windows_and_larger_than_windows_are_read(
    log_larger_than_windows: tuple[bytes, list[bytes]],
) -> None:
    entry, values = log_larger_than_windows
    found = all_records(entry)
    assert [record.offset for record in found] == list(range(len(values)))
    assert [record.value for record in found] == values


def test_a_claimed_size_allocates_no_memory() -> None:
    claims = varint(2**31 - 1) + b"\0\0\0\1" + varint(2**31 - 20) + bytes(100)
    in_v1 = message(V1, 0) + message(V1, 1)[:8] + b"\x7f\xff\xff\xff" + bytes(100)
    entries = [gzipped(claims), batch(claims), wrapper(V1, 0, in_v1)]
    tracemalloc.start()
    try:
        for entry in entries:
            with contextlib.suppress(CorruptRecordsError):
                all_records(entry)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# --- what changes underneath


def test_a_file_that_shrinks_during_a_read_is_reported_as_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(batch(*(record(n, None, bytes(1000)) for n in range(200))))
    with FileRecords.open(path) as records:
        (header,) = records.batches()
        reading = read_batch(records, header)
        assert next(reading).offset == 0
        os.truncate(path, 100_000)
        with pytest.raises(CorruptRecordsError, match=TRUNCATED) as caught:
            list(reading)
    assert caught.value.position == 100_000


def test_a_header_of_other_records_is_refused() -> None:
    records = MemoryRecords(GAPS)
    (header,) = records.batches()
    with pytest.raises(ValueError, match="not one of these"):
        read_batch(records.slice(0, 80), header)


def test_control_batches_of_any_size_are_left_out() -> None:
    """One that is not read at once is as well."""
    many = [Record(n, 0, key=b"\0\0\0\0", value=b"v" * 100) for n in range(3000)]
    data = [Record(n, 0, value=b"data") for n in (3000, 3001)]
    log = build(many, magic=2, control=True) + build(data, magic=2)
    assert [record.offset for record in read(MemoryRecords(log))] == [3000, 3001]
