"""Checks batches before they are appended to a log, and finds a new segment's base offset for them.

Batches come with their offsets. Checksums are verified and offsets must rise. As in a follower of
Kafka, compressed data is not read."""

from collections.abc import Sequence

from downconvert.storage.indexes.offset_index import RELATIVE_MAX
from downconvert.storage.names import OFFSET_MAX
from records import BatchHeader, CorruptRecordsError, MemoryRecords
from records.checksum import verify_checksum
from records.formats import V2, Codec
from records.kernel import Buffer


def check_appended(
    data: Buffer, end_offset: int, headers: Sequence[BatchHeader] | None = None
) -> tuple[Sequence[BatchHeader], int]:
    """The headers of batches that may follow at `end_offset`, and the offset after them.
    `headers`: the same, if their checksums have been compared.

    CorruptRecordsError: one is damaged, incomplete, or not above the one before."""
    if headers is None:
        records = MemoryRecords(data)
        headers = list(records.batches())
        for header in headers:
            verify_checksum(records, header)
    end, consumed = end_offset, 0
    for header in headers:
        base_offset = header.base_offset
        last_offset = base_offset + header.last_offset_delta
        if not end <= base_offset <= last_offset <= OFFSET_MAX:
            raise CorruptRecordsError("offset is below the end of the log", header.position)
        end = last_offset + 1
        consumed += header.size
    if consumed != len(data):
        raise CorruptRecordsError("bytes left after the last batch", consumed)
    return headers, end


def first_offset(headers: Sequence[BatchHeader], end_offset: int) -> int:
    """The base offset of a segment that begins with these batches."""
    first = headers[0]
    if first.magic == V2 or first.codec is Codec.NONE:
        return first.base_offset
    # A compressed message does not state its first offset.
    return max(end_offset, first.last_offset - RELATIVE_MAX)
