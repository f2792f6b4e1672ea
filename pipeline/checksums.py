"""The checksums of many entries in a row, without a read for each.

Not here: one entry of any size, a window at a time (records/checksum.py)."""

from typing import Final

from crc32c import crc32c

from records import BatchHeader, CorruptRecordsError, FileRecords
from records.backend import crc32
from records.checksum import MISMATCH, verify_checksum
from records.formats import ATTRIBUTES_AT_BATCH, MAGIC_AT, V2

WINDOW_SIZE: Final = 256 * 1024  # bytes; stays in a core's cache between the read and the sum


def checksum(entry: memoryview) -> int:
    """What the checksum of an entry should be, of which all bytes are here, and no others."""
    if entry[MAGIC_AT] == V2:
        return int(crc32c(entry[ATTRIBUTES_AT_BATCH:]))
    return crc32(entry, MAGIC_AT, len(entry))


class Checksums:
    """Compares the checksums of entries, best in the order in which they lie in `records`."""

    def __init__(self, records: FileRecords) -> None:
        self._records = records
        self._window = memoryview(bytearray(min(WINDOW_SIZE, max(1, records.size))))
        self._start = self._end = 0  # positions in the records

    def verify(self, header: BatchHeader) -> None:
        """CorruptRecordsError where it is not that of the entry's bytes."""
        start, end = header.position, header.position + header.size
        if not (self._start <= start and end <= self._end):
            if header.size > len(self._window):
                verify_checksum(self._records, header)
                return
            read = self._records.read_into(self._window, start)
            self._start, self._end = start, start + read
            if end > self._end:
                verify_checksum(self._records, header)  # says that it is cut off
                return
        if checksum(self._window[start - self._start : end - self._start]) != header.crc:
            raise CorruptRecordsError(MISMATCH, self._records.origin + start)
