"""The header of a batch, as its bytes state it."""

import pytest

from records import BatchHeader, Codec, CorruptRecordsError, TimestampType
from records.formats import V0, V1, V2
from records.kernel import Buffer

from .examples import CHECKSUMS, DELETE_HORIZON, GAPS, TWO_RECORDS, batch, damaged, message, wrapper


def parse(entry: Buffer) -> BatchHeader:
    return BatchHeader.parse(entry, 0, 0)


def test_every_field_of_a_v2_header_is_where_kafka_has_it() -> None:
    header = parse(
        batch(
            b"",
            base_offset=7,
            leader_epoch=3,
            attributes=0b0111_1100,
            last_offset_delta=5,
            base_timestamp=11,
            max_timestamp=12,
            producer_id=13,
            producer_epoch=14,
            base_sequence=15,
            records_count=16,
        )
    )
    assert (header.base_offset, header.last_offset) == (7, 12)
    assert (header.leader_epoch, header.magic, header.size) == (3, V2, 61)
    assert (header.base_timestamp, header.max_timestamp) == (11, 12)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (13, 14, 15)
    assert header.records_count == 16
    assert header.codec is Codec.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND
    assert header.is_transactional
    assert header.is_control
    assert header.has_delete_horizon


@pytest.mark.parametrize(("magic", "codec"), CHECKSUMS)
def test_the_checksum_is_the_one_that_kafkas_own_test_states(magic: int, codec: str) -> None:
    header = parse(TWO_RECORDS[magic, codec])
    assert header.crc == CHECKSUMS[magic, codec]
    assert header.codec.name.lower() == codec


def test_a_v0_message_has_no_timestamp_and_no_count() -> None:
    header = parse(message(V0, 9))
    assert header.timestamp_type is TimestampType.NONE
    assert (header.max_timestamp, header.records_count) == (-1, None)
    assert (header.base_offset, header.last_offset, header.size) == (9, 9, 28)
    assert (header.producer_id, header.base_sequence, header.leader_epoch) == (-1, -1, -1)


def test_a_v1_message_has_one_timestamp_of_either_type() -> None:
    assert parse(message(V1, 9, timestamp=5)).timestamp_type is TimestampType.CREATE
    header = parse(message(V1, 9, timestamp=5, attributes=0x08))
    assert header.timestamp_type is TimestampType.LOG_APPEND
    assert header.max_timestamp == 5


@pytest.mark.parametrize(("magic", "size"), [(V0, 26), (V1, 34), (V2, 61)])
def test_an_entry_is_at_least_as_large_as_its_head(magic: int, size: int) -> None:
    entry = batch() if magic == V2 else message(magic, 0, None, None)
    assert parse(entry).size == len(entry) == size
    smaller = entry[:8] + (size - 13).to_bytes(4) + entry[12:]
    with pytest.raises(CorruptRecordsError, match="smaller than"):
        parse(smaller)


def test_a_compressed_message_names_only_its_last_offset() -> None:
    header = parse(wrapper(V1, 19, message(V1, 0) + message(V1, 7)))
    assert (header.base_offset, header.last_offset) == (19, 19)


def test_attribute_bits_of_v2_are_ignored_in_older_messages() -> None:
    header = parse(message(V1, 9, attributes=0x70))
    assert not header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon


def test_the_base_timestamp_is_the_delete_horizon_if_the_flag_is_set() -> None:
    header = parse(DELETE_HORIZON)
    assert header.has_delete_horizon
    assert header.base_timestamp == 100


@pytest.mark.parametrize(
    ("base", "delta", "sequence"),
    [
        (2147483647, 1, 0),
        (2147483642, 10, 4),
        (5, 0, 5),
        (-1, 3, -1),
    ],
)
def test_sequence_numbers_wrap_to_zero(base: int, delta: int, sequence: int) -> None:
    header = parse(batch(b"", base_sequence=base, last_offset_delta=delta))
    assert header.last_sequence == header.sequence(delta) == sequence


def test_a_last_offset_beyond_all_offsets_wraps_as_in_java() -> None:
    header = parse(batch(b"", base_offset=2**63 - 1, last_offset_delta=1))
    assert header.last_offset == -(2**63)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (damaged(GAPS, size=13), "entry is smaller than a message header"),
        (damaged(GAPS, size=-1), "entry is smaller than a message header"),
        (damaged(GAPS, magic=3, checksum="wrong"), "unknown magic"),
        (damaged(GAPS, magic=-1, checksum="wrong"), "unknown magic"),
        (damaged(GAPS, size=48), "batch is smaller than its header"),
        (damaged(message(V1, 0), at=8, bytes=b"\0\0\0\x15"), "message is smaller than its header"),
        (damaged(GAPS, attributes=5), "unknown codec"),
        (damaged(GAPS, attributes=7), "unknown codec"),
        (message(V0, 0, attributes=6), "unknown codec"),
    ],
)
def test_an_invalid_header_is_an_error_at_its_position(entry: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecordsError, match=reason) as caught:
        BatchHeader.parse(bytes(5) + entry, 5, 100, origin=1000)
    assert (caught.value.reason, caught.value.position) == (reason, 1100)


@pytest.mark.parametrize(
    ("entry", "head_size"), [(message(V0, 0), 18), (message(V1, 0), 26), (GAPS, 61)]
)
def test_parsing_needs_exactly_the_head(entry: bytes, head_size: int) -> None:
    assert parse(entry[:head_size]) == parse(bytearray(entry)) == parse(memoryview(entry))
    for size in range(head_size):
        with pytest.raises(ValueError, match="not whole"):
            parse(entry[:size])


def test_a_header_at_another_place_differs_in_that_alone() -> None:
    entry = batch(
        b"",
        base_offset=7,
        leader_epoch=3,
        attributes=0b0111_1100,
        last_offset_delta=5,
        max_timestamp=12,
        producer_id=13,
        base_sequence=15,
    )
    header = parse(entry)
    other = damaged(entry, checksum="wrong", base_offset=2**40, leader_epoch=9)
    assert header.placed(2**40, 9) == parse(other)
    assert header.at(99) == BatchHeader.parse(entry, 0, 99)


@pytest.mark.parametrize("at", [-1, -61, -100])
def test_no_entry_begins_before_its_buffer(at: int) -> None:
    """A negative position would be counted from the buffer's end."""
    with pytest.raises(ValueError, match="not whole in the buffer"):
        BatchHeader.parse(batch(bytes(100)), at, 0)
