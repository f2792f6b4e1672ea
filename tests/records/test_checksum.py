"""The checksum of an entry."""

import pytest

from records import BatchHeader, CorruptRecordsError, MemoryRecords
from records.checksum import WINDOW_SIZE, verify_checksum
from records.files.source import TRUNCATED
from records.formats import V0, V1
from records.kernel import Buffer

from .examples import GAPS, TWO_RECORDS, batch, message, record

ENTRIES = {
    "v0": message(V0, 5),
    "v1": message(V1, 5),
    "v2": GAPS,
    "v0 lz4": TWO_RECORDS[V0, "lz4"],
    "v1 lz4": TWO_RECORDS[V1, "lz4"],
    "v2 larger than a window": batch(record(0, None, bytes(3 * WINDOW_SIZE))),
    "v1 larger than a window": message(V1, 5, None, bytes(3 * WINDOW_SIZE)),
}


def verify(entry: Buffer) -> BatchHeader:
    """The header of an entry with the right checksum. CorruptRecordsError: it is wrong."""
    records = MemoryRecords(bytes(100) + entry).slice(100, len(entry))
    (header,) = records.batches()
    verify_checksum(records, header)
    return header


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_good_entries_have_the_stated_checksum(entry: bytes) -> None:
    verify(entry)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_a_bit_flipped_anywhere_in_the_body_is_found(entry: bytes) -> None:
    for at in (len(entry) - 1, len(entry) // 2, len(entry) - 3):
        flipped = bytearray(entry)
        flipped[at] ^= 0x10
        with pytest.raises(CorruptRecordsError, match="checksum does not match") as caught:
            verify(flipped)
        assert caught.value.position == 100


def test_the_checksum_covers_neither_offset_nor_leader_epoch() -> None:
    for entry in (ENTRIES["v0"], ENTRIES["v1"], GAPS):
        changed, header = verify(b"\x01" + entry[1:]), verify(entry)
        assert changed.base_offset - header.base_offset == 1 << 56
    changed, header = verify(GAPS[:12] + b"\x01" + GAPS[13:]), verify(GAPS)
    assert changed.leader_epoch != header.leader_epoch
    assert changed.base_offset == header.base_offset


@pytest.mark.parametrize("entry", [GAPS, message(V0, 0), message(V1, 0, None, b"value")])
def test_a_partly_missing_entry_is_reported_as_truncated(entry: bytes) -> None:
    header = next(MemoryRecords(entry).batches())
    for size in (len(entry) - 1, 20):
        with pytest.raises(CorruptRecordsError, match=TRUNCATED):
            verify_checksum(MemoryRecords(entry[:size]), header)
