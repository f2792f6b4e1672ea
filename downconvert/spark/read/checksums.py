"""Verifies the checksums of many consecutive entries, without a read for each.

Not here: one entry of any size, a window at a time (records/checksum.py)."""

from struct import Struct
from typing import Final

from records import BatchHeader, CorruptRecordsError, FileRecords
from records.backend import crc32
from records.checksum import MISMATCH, verify_checksum
from records.crc32c import crc32c
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    BATCH_HEADER_SIZE,
    MAGIC_AT,
    MESSAGE_OVERHEAD,
    V2,
)

WINDOW_SIZE: Final = 256 * 1024  # bytes; stays in a core's cache between the read and the sum
SIZES_MIN: Final = (*MESSAGE_OVERHEAD.values(), BATCH_HEADER_SIZE)  # of entries, by magic

# Offset, size, checksum of v0 and v1, magic, checksum of v2. Making a header object would cost more
# than the checksum of a small batch.
HEAD: Final = Struct(">qiIBI")


def is_sound(entry: memoryview) -> bool:
    """Whether an entry's checksum is right. `entry`: exactly its bytes."""
    _, _, of_message, magic, of_batch = HEAD.unpack_from(entry)
    if magic == V2:
        return bool(crc32c(entry[ATTRIBUTES_AT_BATCH:]) == of_batch)
    return bool(crc32(entry, MAGIC_AT, len(entry)) == of_message)


class Checksums:
    """Verifies checksums of entries. Fastest in the order of `records`."""

    def __init__(self, records: FileRecords) -> None:
        self._records = records
        self._window = memoryview(bytearray(min(WINDOW_SIZE, max(1, records.size))))
        self._start = self._end = 0  # positions in the records

    def verify(self, header: BatchHeader) -> None:
        """CorruptRecordsError: the checksum is not that of the entry's bytes."""
        start, end = header.position, header.position + header.size
        if not (self._start <= start and end <= self._end):
            if header.size > len(self._window):
                verify_checksum(self._records, header)
                return
            read = self._records.read_into(self._window, start)
            self._start, self._end = start, start + read
            if end > self._end:
                verify_checksum(self._records, header)  # raises: the entry is cut off
                return
        if not is_sound(self._window[start - self._start : end - self._start]):
            raise CorruptRecordsError(MISMATCH, self._records.origin + start)
