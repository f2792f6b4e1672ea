"""What the records field of a fetch's answer is made of, wherever the records come from.

The broker reads its own log, the gateway asks a cluster; both assemble answers by these rules: when
converted bytes are kept, when short ranges are joined, where reading goes on, and which error a
client of each Fetch version understands.

Not here: which format and policy a client gets (conversions.py), reading a log (reading.py)."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from downconvert import AbortedTransaction, ConversionPolicy, LazyDownConvertRecords, convert
from downconvert.storage import OffsetOutOfRangeError, StorageError
from records import RecordsError, RecordTooLargeError, UnsupportedCodecError
from records.sends import Send
from records.source import Records
from records.units import KiB

from .buffered_send import BufferedSend, MemoryBudget
from .errors import ApiError, ErrorCode

# Ranges as small as this are joined with what follows in the next segment: else a client of a log
# that rolls often gets little for each request. Knowing where a range ends costs reading its
# headers.
JOINED_SIZE_MAX: Final = 64 * KiB

Converted: TypeAlias = BufferedSend | LazyDownConvertRecords

# Error codes that older clients do not know: the version of Fetch that brought them, and what its
# predecessors are told, which makes them look for the leader again.
NEWER_CODES: Final[dict[int, tuple[int, int]]] = {
    ErrorCode.KAFKA_STORAGE_ERROR: (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.FENCED_LEADER_EPOCH: (9, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.UNKNOWN_LEADER_EPOCH: (9, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.OFFSET_NOT_AVAILABLE: (9, ErrorCode.LEADER_NOT_AVAILABLE),
    ErrorCode.UNKNOWN_TOPIC_ID: (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ErrorCode.INCONSISTENT_TOPIC_ID: (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


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
    first = next(records.batches(), None)
    is_measured = policy.size == "exact" and not policy.predicts
    if budget is not None and first is not None and first.codec and is_measured:
        buffered = BufferedSend.of(records, magic, offset, policy, budget, aborted=aborted)
        if buffered is not None:
            return buffered
    return LazyDownConvertRecords(records, magic, offset, policy, aborted=aborted)


def to_send(converted: Converted, size_max: int | None = None) -> Send:
    """What sends it, or its first `size_max` bytes."""
    if isinstance(converted, LazyDownConvertRecords):
        return converted.to_send(size_max)
    if size_max is not None:
        converted.cut(size_max)
    return converted


def head_of(
    converted: Converted, records: Records, magic: int, offset: int, policy: ConversionPolicy
) -> bytes | memoryview:
    """How it begins; the arguments are those of `convert_range`."""
    if isinstance(converted, BufferedSend):
        return converted.head
    return next(convert(records, magic, offset, policy))


def end_offset_of(records: Records) -> int | None:
    """The offset after the last whole batch; None where there is none."""
    end = None
    for header in records.batches():
        end = header.last_offset + 1
    return end


def error_code_of(error: ApiError | RecordsError | OSError) -> ErrorCode:
    """What a client is told whose records cannot be read or sent."""
    match error:
        case ApiError():
            return error.code
        case OffsetOutOfRangeError():
            return ErrorCode.OFFSET_OUT_OF_RANGE
        case UnsupportedCodecError():
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        case RecordTooLargeError():
            return ErrorCode.MESSAGE_TOO_LARGE
        case StorageError() | OSError():
            return ErrorCode.KAFKA_STORAGE_ERROR
        case _:
            return ErrorCode.CORRUPT_MESSAGE


def known_code(code: int, version: int) -> int:
    """An error code as a client of this Fetch version knows it."""
    since, older = NEWER_CODES.get(code, (0, code))
    return code if version >= since else older
