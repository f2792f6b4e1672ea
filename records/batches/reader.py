"""Reads records of any format, codec and timestamp type, one after the other.

The kernel reads ordinary batches, as many at once as fit in a window. It does not read large
batches, compressed messages of v0 and v1, and damaged data. These are read step by step, which
finds the cause and position of an error.

Sources: Kafka's FileLogInputStream and RecordBatchIterator.

Not here: a batch step by step (batch_reader.py), the positions of batches (source.py), records
(record.py)."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from records.backend import read_entries, summarize_batch
from records.batch import CODECS, BatchHeader
from records.files.source import Records, read_headers
from records.formats import CODEC_MASK
from records.kernel import Buffer
from records.kernel_functions import Summary
from records.record import Record
from records.units import KiB

from .batch_reader import ENTRY_SIZE_MAX, BatchReader, body_size_max

__all__ = ["Record", "read", "read_batch", "read_rows", "summarize"]

# Several batches of a producer's usual size, but so few that they and their records stay in the
# processor's cache until they are used.
READ_SIZE: Final = 64 * KiB  # bytes
ATTRIBUTES: Final = BatchHeader._fields.index("attributes")


def read(
    records: Records, *, verify: bool = True, record_size_max: int | None = None
) -> Iterator[Record]:
    """The records that a consumer gets, in order: all but those of control batches.

    Up to 64 KiB of the log, or the decompressed body of one batch, are read ahead.

    verify: whether checksums are compared. record_size_max: bytes of a record, to limit memory.

    CorruptRecordsError: the next entry or record is damaged. RecordTooLargeError: the next record
    has more than `record_size_max` bytes. Both come after the good records before it.

    >>> from records import MemoryRecords, Record, build
    >>> made = [Record(offset=n, timestamp=n, value=b"%d" % n) for n in range(3)]
    >>> [record.value for record in read(MemoryRecords(build(made, magic=2)))]
    [b'0', b'1', b'2']"""
    return chain.from_iterable(_read(records, verify, record_size_max))


def read_batch(
    records: Records,
    header: BatchHeader,
    *,
    verify: bool = True,
    record_size_max: int | None = None,
) -> Iterator[Record]:
    """The records of one batch of `records.batches()`, also of a control batch.

    `verify` compares checksums: the batch's at once, and that of each message in a compressed
    message. The errors are those of `read`. In a compressed v1 message they come before all
    records, because the last message inside determines the offsets. ValueError: the batch ends
    after the end of `records`."""
    if header.position + header.size > records.size:
        raise ValueError("the header is not one of these records")
    entry = _entry(records, header)
    if entry is not None and len(entry) <= (size_max := body_size_max(record_size_max)):
        found, consumed = read_entries(entry, 0, len(entry), verify, True, size_max)
        if consumed:
            return iter(found)
    reader = BatchReader(records, verify, record_size_max)
    return chain.from_iterable(reader.read(header, entry))


def read_rows(
    records: Records, header: BatchHeader, *, record_size_max: int | None = None
) -> Iterator[bytearray]:
    """The rows of `columns` (kernel.py) of one v2 batch, some at a time, for callers that need only
    offsets, timestamps and sizes. Do not use the positions in the rows: the bytes they point to are
    gone. Errors are those of `read_batch`. The checksum is not compared."""
    return BatchReader(records, False, record_size_max).rows(header)


def summarize(
    batch: Buffer, *, record_size_max: int | None = None
) -> tuple[BatchHeader, Summary] | None:
    """The header of a v2 batch in memory, and the result of `summarize_batch`
    (kernel_functions.py), which has compared the checksum. None: reading the header and the rows
    finds the same, or the error. It is None for bytes after the batch."""
    found = summarize_batch(batch, 0, len(batch), body_size_max(record_size_max))
    if found is None:
        return None
    fields = found[0]
    codec = CODECS[fields[ATTRIBUTES] & CODEC_MASK]
    return tuple.__new__(BatchHeader, (*fields, codec)), found  # as BatchHeader.parse does


def _read(records: Records, verify: bool, record_size_max: int | None) -> Iterator[list[Record]]:
    size, size_max = records.size, body_size_max(record_size_max)
    window = memoryview(bytearray(min(READ_SIZE, size_max, size)))
    reader: BatchReader | None = None
    position = start = filled = 0  # `position` is that of `window[start]`
    while True:
        found, consumed = read_entries(window, start, filled, verify, False, size_max)
        if found:
            yield found
        position += consumed
        start += consumed
        if consumed:
            continue
        if start or not filled:  # the window may end within the entry
            filled = records.read_into(window[: size - position], position)
            start = 0
            if filled:
                continue
        header = next(read_headers(records, position), None)
        if header is None:
            return
        if not header.is_control:
            reader = reader or BatchReader(records, verify, record_size_max)
            yield from reader.read(header, _entry(records, header))
        position += header.size
        start = filled = 0


def _entry(records: Records, header: BatchHeader) -> memoryview | None:
    """The whole entry. None if it is large, or if the file has shrunk (reading step by step reports
    that)."""
    if header.size > ENTRY_SIZE_MAX:
        return None
    entry = memoryview(bytearray(header.size))
    return entry if records.read_into(entry, header.position) == header.size else None
