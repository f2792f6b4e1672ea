"""The contents of control records."""

import pytest

from records import CorruptRecordsError, MemoryRecords
from records.batches.builder import build_marker
from records.batches.control import ControlRecordType, EndTransactionMarker
from records.batches.reader import read_batch
from tests.records.examples import batch, record

ABORT = bytes.fromhex("00000000")
COMMIT = bytes.fromhex("00000001")
EPOCH_5 = bytes.fromhex("000000000005")
CONTROL = 0x20
TRANSACTIONAL = 0x10


def marker(key: bytes | None = COMMIT, value: bytes | None = EPOCH_5) -> bytes:
    return batch(record(0, key, value), attributes=CONTROL | TRANSACTIONAL, producer_id=1)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("00000000", ControlRecordType.ABORT),
        ("00000001", ControlRecordType.COMMIT),
        ("00000002", ControlRecordType.LEADER_CHANGE),
        ("00000003", ControlRecordType.SNAPSHOT_HEADER),
        ("00000004", ControlRecordType.SNAPSHOT_FOOTER),
        ("00000005", ControlRecordType.KRAFT_VERSION),
        ("00000006", ControlRecordType.KRAFT_VOTERS),
        ("00000007", ControlRecordType.UNKNOWN),
        ("0000ffff", ControlRecordType.UNKNOWN),
        ("0007000100ff", ControlRecordType.COMMIT),  # a later version, with fields of its own
    ],
)
def test_the_type_is_in_the_key_and_later_versions_are_read_as_the_first(
    key: str, expected: ControlRecordType
) -> None:
    assert ControlRecordType.parse(bytes.fromhex(key), 0) is expected


@pytest.mark.parametrize("value", [EPOCH_5, EPOCH_5 + b"more", b"\0\x09" + EPOCH_5[2:]])
def test_a_marker_has_the_outcome_and_its_coordinator(value: bytes) -> None:
    abort = EndTransactionMarker.parse(ABORT, value, 0)
    assert (abort.type, abort.coordinator_epoch) == (ControlRecordType.ABORT, 5)
    assert EndTransactionMarker.parse(COMMIT, value, 0).type is ControlRecordType.COMMIT


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, EPOCH_5, "control record's key is too short"),
        (b"\0\0\0", EPOCH_5, "control record's key is too short"),
        (b"\xff\xff\0\0", EPOCH_5, "control record's key has a negative version"),
        (b"\0\0\0\2", EPOCH_5, "control record does not end a transaction"),
        (b"\0\0\0\x70", EPOCH_5, "control record does not end a transaction"),
        (COMMIT, None, "end of transaction is too short"),
        (COMMIT, EPOCH_5[:5], "end of transaction is too short"),
        (COMMIT, b"\xff\xff\0\0\0\0", "end of transaction has a negative version"),
    ],
)
def test_an_invalid_marker_is_an_error_at_its_batch(
    key: bytes | None, value: bytes | None, reason: str
) -> None:
    with pytest.raises(CorruptRecordsError) as caught:
        EndTransactionMarker.parse(key, value, 78)
    assert (caught.value.reason, caught.value.position) == (reason, 78)


def test_a_marker_is_78_bytes_and_is_read_as_a_record() -> None:
    records = MemoryRecords(marker())
    assert records.size == 78
    (header,) = records.batches()
    (read,) = read_batch(records, header)
    assert EndTransactionMarker.parse(read.key, read.value, 0).coordinator_epoch == 5


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (ABORT, ControlRecordType.ABORT),
        (COMMIT + b"more", ControlRecordType.COMMIT),
        (bytes.fromhex("00000007"), ControlRecordType.UNKNOWN),
        (bytes.fromhex("ffff0000"), ControlRecordType.ABORT),
        (ABORT[:3], ControlRecordType.UNKNOWN),
        (b"", ControlRecordType.UNKNOWN),
    ],
)
def test_a_key_that_cannot_be_read_may_be_ignored(key: bytes, expected: ControlRecordType) -> None:
    assert ControlRecordType.of(key) is expected


def test_a_marker_has_the_epochs_that_it_is_built_with() -> None:
    """No two of them are equal."""
    data = build_marker(
        ControlRecordType.COMMIT,
        offset=11,
        timestamp=12,
        producer_id=13,
        producer_epoch=14,
        coordinator_epoch=15,
        leader_epoch=16,
    )
    records = MemoryRecords(data)
    header = next(records.batches())
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (11, 11, 12)
    assert (header.producer_id, header.producer_epoch, header.leader_epoch) == (13, 14, 16)
    found = next(read_batch(records, header))
    marker = EndTransactionMarker.parse(found.key, found.value, 0)
    assert marker == EndTransactionMarker(ControlRecordType.COMMIT, 15)
