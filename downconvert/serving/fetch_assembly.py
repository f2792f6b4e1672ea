"""What the records field of a fetch's answer is made of, wherever the records come from.

The broker reads its own log, the gateway asks a cluster; both assemble answers by these rules: with
which batch a range begins, when converted bytes are kept, where reading goes on, when short ranges
are joined, and which error stands for which failure.

Not here: which format a client reads and which errors it knows (fetch_versions.py), which policy it
gets (conversions.py), reading a log (reading.py)."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords, convert
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.storage import OffsetOutOfRangeError, StorageError
from records import (
    BatchHeader,
    RecordsError,
    UnsupportedCodecError,
    read_batch,
)
from records.files.sends import Send
from records.files.source import Records
from records.formats import MESSAGE_OVERHEAD, PREFIX, V1, V2
from records.units import KiB, MiB

from .buffered_send import BufferedSend, MemoryBudget

# An answer with as little as this is joined with what follows in the next segment: else a client of
# a log that rolls often gets little for each request, and some clients do not get over a gap in the
# offsets between two answers. What is joined costs a look at its headers, or a request to the
# cluster, so that an answer with more is not read on.
JOINED_SIZE_MAX: Final = 64 * KiB

# A record that is larger is not looked at: its batch is sent.
LOOKED_AT_MAX: Final = MiB

Converted: TypeAlias = BufferedSend | LazyDownConvertRecords


def convert_range(
    records: Records,
    magic: int,
    offset: int,
    policy: ConversionPolicy,
    budget: MemoryBudget | None,
    aborted: Iterable[AbortedTransaction] = (),
) -> Converted:
    """The records from `offset` on, to be sent in message format `magic`; its `size` may be 0.

    What is measured by compressing it is kept while the budget lasts, so that it is done once.
    RecordsError: damage, or a refusal, is all there is."""
    is_measured = policy.size == "exact" and not policy.may_end_early
    first = next(records.batches(), None) if budget is not None and is_measured else None
    if budget is not None and first is not None and first.codec:
        buffered = BufferedSend.of(records, magic, offset, policy, budget, aborted=aborted)
        if buffered is not None:
            return buffered
    return LazyDownConvertRecords(records, magic, offset, policy, aborted=aborted)


def is_small_and_plain(records: Records, size_max: int, batches_max: int | None = None) -> bool:
    """Whether a range is converted at once, without turns: it has at most `size_max` bytes and
    `batches_max` batches, none of them is compressed, so that nothing expands, and every header
    can be read."""
    if records.size > size_max:
        return False
    try:
        for count, header in enumerate(records.batches(), start=1):
            if header.codec or (batches_max is not None and count > batches_max):
                return False
    except RecordsError:
        return False
    return True


def to_send(converted: Converted, size_max: int | None = None) -> Send:
    """The send for a converted range, or for its first `size_max` bytes."""
    if isinstance(converted, LazyDownConvertRecords):
        return converted.to_send(size_max)
    if size_max is not None:
        converted.cut(size_max)
    return converted


def head_of(
    converted: Converted, records: Records, magic: int, offset: int, policy: ConversionPolicy
) -> bytes | memoryview:
    """The first bytes of a converted range; the arguments are those of `convert_range`. No bytes
    where it converts to nothing, though an estimate promises something."""
    if isinstance(converted, BufferedSend):
        return converted.head
    return next(convert(records, magic, offset, policy), b"")


def hard_size(
    size: int,
    limit: int | None,
    head: Callable[[], bytes | memoryview],
    first: BatchHeader | None = None,
) -> int | None:
    """How much of a converted range of `size` bytes goes out under a hard limit, as that of a
    partition is below version 3 of Fetch; None: all. `head`: how it begins.
    `first`: the batch with one of whose records it begins, where that is known.

    A client whose buffer is smaller than a message gets it whole. A broker of its time would have
    cut it off, and the client had to ask for more. None of them fails on getting more, and one
    batch on disk, which is what must fit here, is many messages for them."""
    if limit is None or size <= limit:
        return None
    if first is not None and not first.codec and first.size + MESSAGE_OVERHEAD[V1] <= limit:
        return limit  # none of its messages is larger: that needs no look
    begins = head()
    if not begins:
        return limit
    first_size: int = PREFIX.unpack_from(begins)[1]
    return max(limit, PREFIX.size + first_size)


def joins_more(used: int, room: int) -> bool:
    """Whether a range that is in the answer as a whole is joined with what follows it.

    used: bytes of the log in the answer so far. room: bytes of the log that still fit."""
    return used <= JOINED_SIZE_MAX and room > 0


class FirstOfUse(NamedTuple):
    """header: of the first batch that has something for the client; None: none of the range has.
    end: the offset after the last batch before it; None: there is none. looked_at: batches."""

    header: BatchHeader | None
    end: int | None
    looked_at: int


def first_of_use(records: Records, offset: int, *, wants_markers: bool) -> FirstOfUse:
    """The first batch of a range that has a record at or after `offset`, or a marker where those
    are wanted, or is damaged. Batches below v2 count as having one.

    Compaction removes records but not their batch's last offset. Sarama before 1.39 and kafkajs 1
    go on from the last record that they saw, and would be sent the same batch for ever; kafkajs
    1.8 also where a segment ends with a marker. RecordsError: a header is damaged."""
    end, looked_at = None, 0
    for header in records.batches():
        looked_at += 1
        is_marker = header.is_control and wants_markers
        if header.magic < V2 or is_marker or has_record_from(records, header, offset):
            return FirstOfUse(header, end, looked_at)
        end = header.last_offset + 1
    return FirstOfUse(None, end, looked_at)


def is_of_use(header: BatchHeader, offset: int) -> bool:
    """Whether the header alone shows that a batch has a record at or after `offset`, as that of
    nearly every batch does that is asked for."""
    if header.magic < V2:
        return True
    count, last_delta = header.records_count, header.last_offset_delta
    if not count or header.is_control:
        return False
    base_offset = header.base_offset
    return base_offset >= offset or (count == last_delta + 1 and base_offset + last_delta >= offset)


def has_record_from(records: Records, header: BatchHeader, offset: int) -> bool:
    """Whether a batch of v2 has a record at or after `offset`, or is damaged. Markers are none."""
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
    """The offset after the last whole batch; None where there is none."""
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
