"""Compressed messages and their keys."""

from zlib import crc32

import pytest

from records import Codec, MemoryRecords, Record, TimestampType, build, read
from records.checksum import verify_checksum
from records.wrapper import ZEROS, padded, unpadded, value_range

RECORDS = [Record(offset=n, timestamp=n, key=b"k", value=b"value") for n in range(20)]


def made(magic: int, codec: Codec = Codec.GZIP) -> bytes:
    records = RECORDS
    if magic == 0:
        records = [
            Record(each.offset, -1, TimestampType.NONE, each.key, each.value) for each in RECORDS
        ]
    return build(records, magic=magic, codec=codec)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 700, len(ZEROS), len(ZEROS) + 1, 200_000])
def test_a_padded_message_is_longer_by_that_and_reads_the_same(magic: int, size: int) -> None:
    message = made(magic)
    longer = b"".join(padded(message, size))
    assert len(longer) == len(message) + size
    records = MemoryRecords(longer)
    (header,) = records.batches()
    verify_checksum(records, header)
    assert list(read(records)) == list(read(MemoryRecords(message)))
    start, end = value_range(records, 0, len(longer), magic)
    assert longer[start:end] == message[len(message) - (end - start) :]
    assert int.from_bytes(longer[12:16]) == crc32(longer[16:])
    assert unpadded(longer) == message


def test_what_cannot_be_padded_is_refused() -> None:
    message = made(1)
    once = b"".join(padded(message, 5))
    for wrong in (once, 1), (message, -1), (message, 2**31):
        with pytest.raises(ValueError, match="message"):
            list(padded(*wrong))
