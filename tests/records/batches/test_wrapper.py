"""Compressed messages and their keys."""

from zlib import crc32

import pytest

from records import Codec, MemoryRecords, Record, TimestampType, build, read
from records.batches.wrapper import value_range
from records.checksum import verify_checksum
from records.formats import MESSAGE_HEAD

RECORDS = [Record(offset=n, timestamp=n, key=b"k", value=b"value") for n in range(20)]


def made(magic: int, codec: Codec = Codec.GZIP) -> bytes:
    records = RECORDS
    if magic == 0:
        records = [
            Record(each.offset, -1, TimestampType.NONE, each.key, each.value) for each in RECORDS
        ]
    return build(records, magic=magic, codec=codec)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [0, 1, 5, 700])
def test_a_key_is_skipped(magic: int, size: int) -> None:
    message, key_at = made(magic), MESSAGE_HEAD[magic].size
    fields = message[16:key_at] + size.to_bytes(4) + bytes(size) + message[key_at + 4 :]
    longer = message[:8] + (len(fields) + 4).to_bytes(4) + crc32(fields).to_bytes(4) + fields
    records = MemoryRecords(longer)
    (header,) = records.batches()
    verify_checksum(records, header)
    assert list(read(records)) == list(read(MemoryRecords(message)))
    start, end = value_range(records, 0, len(longer), magic)
    assert longer[start:end] == message[len(message) - (end - start) :]
