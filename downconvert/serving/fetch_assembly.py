"""Assembles the records field of a fetch response, from any source of records.

The broker reads its own log, and the gateway reads from a cluster. Both use these rules: the batch
at which a range begins, when converted bytes are kept, where reading continues, when short ranges
are joined, and the error code for each failure.

Not here: a client's format and error codes (fetch_versions.py), its policy (conversions.py),
reading a log (reading.py)."""

from collections.abc import Callable
from typing import Final, NamedTuple

from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.storage import OffsetOutOfRangeError, StorageError
from records import (
    BatchHeader,
    RecordsError,
    UnsupportedCodecError,
    read_batch,
)
from records.files.source import Records
from records.formats import MESSAGE_OVERHEAD, PREFIX, V1, V2
from records.units import KiB, MiB

# A response with at most this many bytes is joined with the next segment. Otherwise a client gets
# little for each request if the log rolls often, and some clients fail on an offset gap between two
# responses. Joining costs a look at headers, or a request to the cluster, so a larger response is
# not joined.
JOINED_SIZE_MAX: Final = 64 * KiB

# Bytes. A batch with a larger record is sent without a check.
LOOKED_AT_MAX: Final = MiB


def hard_size(
    size: int,
    limit: int | None,
    head: Callable[[], memoryview],
    first: BatchHeader | None = None,
) -> int | None:
    """How much of a converted range of `size` bytes is sent under a hard limit, like that of a
    partition below version 3 of Fetch. None: all. `head`: returns its first bytes. `first`: the
    batch in the log that has its first record, if known.

    A message larger than the limit is sent whole. An old broker would have cut it off, and the
    client would have repeated the fetch with a higher limit. No client fails on more bytes than its
    limit. Here the limit would have to hold a whole batch of the log, which is many messages for
    these clients."""
    if limit is None or size <= limit:
        return None
    if first is not None and not first.codec and first.size + MESSAGE_OVERHEAD[V1] <= limit:
        return limit  # no message is larger than the limit, so no further check is needed
    begins = head()
    if not begins:
        return max(limit, 0)  # a client may ask for a negative number of bytes
    first_size: int = PREFIX.unpack_from(begins)[1]
    return max(limit, PREFIX.size + first_size)


def may_join_next(used: int, room: int) -> bool:
    """Whether a range that is completely in the response is joined with the next range.

    used: bytes of the log that the response has so far. room: bytes of the log that still fit."""
    return used <= JOINED_SIZE_MAX and room > 0


class FirstVisible(NamedTuple):
    """header: of the first batch that has something for the client; None: no batch has. end: the
    offset after the batches before it; None: there are none. looked_at: the number of checked
    batches."""

    header: BatchHeader | None
    end: int | None
    looked_at: int


def first_visible(records: Records, offset: int, *, wants_markers: bool) -> FirstVisible:
    """The first batch of a range that has a record at or after `offset`, has a marker if markers
    are wanted, or is damaged. Batches below v2 count as having a record. If offsets in the log
    decrease, `end` is after the highest, so that a client that continues there makes progress.

    Compaction may remove a batch's last records, but keeps its last offset. Sarama before 1.39 and
    kafkajs 1 continue after the last record that they saw, and would get the same batch for ever.
    kafkajs 1.8
    does so also if a segment ends with a marker. Raises RecordsError if a header is damaged."""
    end, looked_at = None, 0
    for header in records.batches():
        looked_at += 1
        is_marker = header.is_control and wants_markers
        if header.magic < V2 or is_marker or has_record_from(records, header, offset):
            return FirstVisible(header, end, looked_at)
        end = max(end or 0, header.last_offset + 1)
    return FirstVisible(None, end, looked_at)


def has_visible_record(header: BatchHeader, offset: int) -> bool:
    """Whether the header alone shows that a batch has a record at or after `offset`. That is true
    for nearly every fetched batch."""
    if header.magic < V2:
        return True
    count, last_delta = header.records_count, header.last_offset_delta
    if not count or header.is_control:
        return False
    base_offset = header.base_offset
    return base_offset >= offset or (count == last_delta + 1 and base_offset + last_delta >= offset)


def has_record_from(records: Records, header: BatchHeader, offset: int) -> bool:
    """Whether a v2 batch has a record at or after `offset`, or is damaged. Markers do not count."""
    if header.is_control:
        return False
    if header.base_offset >= offset:
        return bool(header.records_count)
    if header.records_count == header.last_offset - header.base_offset + 1:  # none was removed
        return header.last_offset >= offset
    try:
        found = read_batch(records, header, verify=False, record_size_max=LOOKED_AT_MAX)
        return any(record.offset >= offset for record in found)
    except RecordsError:
        return True


def end_offset_of(records: Records) -> int | None:
    """The offset after the last whole batch. None: there is none."""
    end = None
    for header in records.batches():
        end = header.last_offset + 1
    return end


def error_code_of(error: ApiError | RecordsError | OSError) -> ErrorCode:
    """The error code for records that cannot be read or sent."""
    match error:
        case ApiError():
            return error.code
        case OffsetOutOfRangeError():
            return ErrorCode.OFFSET_OUT_OF_RANGE
        case UnsupportedCodecError():
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        case StorageError() | OSError():
            return ErrorCode.KAFKA_STORAGE_ERROR
        case _:
            return ErrorCode.CORRUPT_MESSAGE
