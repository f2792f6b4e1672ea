"""What a client reads from an answer: how many records, and up to which offset.

A client skips what lies before the offset that it asked for, leaves out control batches, and
takes an entry that is not whole (cut off, or filler) for the end.

Not here: reading records to use them (records.reader)."""

from struct import Struct
from typing import Final

from records import BatchHeader, CorruptRecordsError, MemoryRecords
from records.backend import Transcoder
from records.formats import V2
from records.kernel import ROW_SIZE, Outcome
from records.reader import read_batch

_ROWS: Final = 1024  # a call
_OFFSET: Final = Struct("=q")  # the first field of a row


def delivered(data: bytes | bytearray | memoryview, first_offset: int) -> tuple[int, int]:
    """Records at or behind `first_offset`, and the last one's offset, or -1."""
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
