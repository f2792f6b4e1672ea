"""Counts the records that a client reads from a response, and finds the last one's offset.

A client skips records before the requested offset, and control batches. An incomplete entry (cut
off, or filler) ends the response for it.

Not here: reading records to use them (records.batches.reader)."""

from struct import Struct
from typing import Final

from records import BatchHeader, CorruptRecordsError, MemoryRecords
from records.backend import Transcoder
from records.batches.reader import read_batch
from records.formats import V2
from records.kernel import ROW_SIZE, Outcome

_ROWS: Final = 1024  # in one call
_OFFSET: Final = Struct("=q")  # the first field of a row


def delivered(data: bytes | bytearray | memoryview, first_offset: int) -> tuple[int, int]:
    """The number of records from `first_offset` on, and the offset of the last one (-1 if there is
    none)."""
    records = MemoryRecords(data)
    size = records.size
    rows = bytearray(_ROWS * ROW_SIZE)
    transcoder = Transcoder(V2, first_offset, 0, False)
    position = count = 0
    last = -1
    while True:
        consumed, produced, outcome = transcoder.columns(
            data, position, size, size - position, rows, 0, len(rows)
        )
        position += consumed
        if produced:
            count += produced // ROW_SIZE
            last = _OFFSET.unpack_from(rows, produced - ROW_SIZE)[0]
        if outcome == Outcome.BATCH:
            header = BatchHeader.parse(data, position, position)
            if not header.is_control:
                for record in read_batch(records, header):
                    if record.offset >= first_offset:
                        count, last = count + 1, record.offset
            position += header.size
            transcoder.leave()
        elif outcome == Outcome.DAMAGE:
            reason, index = transcoder.damage or ("", position)
            raise CorruptRecordsError(reason, index)
        elif outcome != Outcome.TARGET:
            return count, last
