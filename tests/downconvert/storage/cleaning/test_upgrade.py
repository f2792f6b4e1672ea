"""Old batches as v2: the same records at the same offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downconvert.storage.cleaning.upgrade import (
    COMPRESSED_SIZE_MAX,
    UpgradeCount,
    upgrade_batches,
    upgraded,
)
from records import CorruptRecordsError, MemoryRecords, RecordTooLargeError
from records.batches.builder import build
from records.batches.reader import read
from records.formats import V0, V1, V2, Codec, TimestampType
from records.record import Record
from tests import strategies
from tests.downconvert.storage.logs import batch


def upgrade(data: bytes) -> tuple[bytes, UpgradeCount]:
    count = UpgradeCount()
    return b"".join(upgrade_batches(MemoryRecords(data), count)), count


def records_of(data: bytes) -> list[Record]:
    return list(read(MemoryRecords(data)))


@given(strategies.segments())
def test_upgrading_changes_no_record(segment: strategies.Segment) -> None:
    made, count = upgrade(segment.data)
    headers = list(MemoryRecords(made).batches())
    assert all(header.magic == V2 for header in headers)
    assert records_of(made) == [upgraded(record) for record in records_of(segment.data)]
    assert (count.batches_out, count.bytes_out) == (len(headers), len(made))
    assert sum(header.size for header in headers) == len(made)


@given(strategies.segments())
def test_batches_of_v2_are_unchanged(segment: strategies.Segment) -> None:
    once, _ = upgrade(segment.data)
    twice, count = upgrade(once)
    assert (twice, count.batches_converted) == (once, 0)


def test_a_compressed_message_becomes_a_batch_of_its_codec() -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        made, count = upgrade(batch(3, 5, 9, magic=V1, codec=codec))
        (header,) = MemoryRecords(made).batches()
        assert (header.codec, header.base_offset, header.last_offset) == (codec, 3, 9)
        assert (count.batches_converted, count.records_converted) == (1, 3)


def test_uncompressed_messages_are_combined() -> None:
    made, count = upgrade(b"".join(batch(n, magic=V0, size=1000) for n in range(40)))
    headers = list(MemoryRecords(made).batches())
    assert [header.base_offset for header in headers] == [0, 16, 32]
    assert (count.batches_in, count.batches_out) == (40, 3)
    assert count.bytes_out < count.bytes_in


def test_messages_of_one_timestamp_type_are_combined() -> None:
    def message(offset: int, kind: TimestampType, time: int) -> bytes:
        return build([Record(offset, time, kind, None, b"v")], magic=V1, timestamp_type=kind)

    create, append = TimestampType.CREATE, TimestampType.LOG_APPEND
    story = [(create, 5), (create, 9), (append, 9), (append, 9), (append, 10), (create, 10)]
    made, _ = upgrade(b"".join(message(n, *kind) for n, kind in enumerate(story)))
    headers = list(MemoryRecords(made).batches())
    assert [header.base_offset for header in headers] == [0, 2, 4, 5]
    assert [(r.timestamp_type, r.timestamp) for r in records_of(made)] == story


def test_a_large_message_becomes_several_batches() -> None:
    """So that what it expands to is never in memory as a whole."""
    records = [Record(n, 0, TimestampType.CREATE, None, b"v" * 300_000) for n in range(10)]
    made, _ = upgrade(build(records, magic=V1, codec=Codec.GZIP))
    headers = list(MemoryRecords(made).batches())
    assert len(headers) == 4
    assert records_of(made) == records
    assert 3 * 300_000 < COMPRESSED_SIZE_MAX < 4 * 300_000


def test_offsets_that_do_not_rise_or_are_far_apart_are_in_batches_of_their_own() -> None:
    """Checksums do not cover the offsets of messages: anything may be there."""
    at = [5, 6, 4, 2**40, 2**40 + 2**31 - 1, 2**40 + 2**31, -7]
    made, _ = upgrade(b"".join(batch(offset, magic=V0) for offset in at))
    assert [record.offset for record in records_of(made)] == at
    bases = [header.base_offset for header in MemoryRecords(made).batches()]
    assert bases == [5, 4, 2**40, 2**40 + 2**31, -7]


@given(st.data())
def test_damaged_records_are_not_compacted(data: st.DataObject) -> None:
    """Unreadable records are an error, and are not left out."""
    good = batch(0, 1, magic=V1, codec=Codec.GZIP)
    at = data.draw(st.integers(17, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptRecordsError, match=r"checksum does not match|unknown codec"):
        upgrade(bytes(bad))


def test_a_record_above_the_limit_is_refused() -> None:
    old = MemoryRecords(batch(0, magic=V1, size=200_000))
    assert list(upgrade_batches(old, UpgradeCount(), record_size_max=201_000))
    with pytest.raises(RecordTooLargeError):
        list(upgrade_batches(old, UpgradeCount(), record_size_max=100_000))
