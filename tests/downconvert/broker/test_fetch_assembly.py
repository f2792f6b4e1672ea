"""What the records field of a fetch's answer is made of."""

from io import BytesIO

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords, convert
from downconvert.broker.buffered_send import BufferedSend, MemoryBudget
from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.fetch_assembly import (
    convert_range,
    end_offset_of,
    error_code_of,
    head_of,
    known_code,
    to_send,
)
from downconvert.storage import OffsetOutOfRangeError, StorageError
from records import Codec, CorruptRecordsError, MemoryRecords, RecordTooLargeError
from records.errors import UnsupportedCodecError
from records.sends import Send
from tests.downconvert.storage.logs import batch

POLICY = ConversionPolicy(padding=False)  # sizes are measured
PLAIN = batch(0, 1) + batch(2, 3)
PACKED = batch(0, 1, codec=Codec.GZIP) + batch(2, 3, codec=Codec.GZIP)


def sent(send: Send) -> bytes:
    channel = BytesIO()
    while not send.completed:
        send.write_to(channel)
    return channel.getvalue()


@pytest.mark.parametrize(
    ("data", "budget", "kind"),
    [
        (PLAIN, MemoryBudget(1_000_000), LazyDownConvertRecords),
        (PACKED, MemoryBudget(1_000_000), BufferedSend),
        (PACKED, MemoryBudget(10), LazyDownConvertRecords),
        (PACKED, None, LazyDownConvertRecords),
    ],
)
@pytest.mark.parametrize("size_max", [None, 70])
def test_a_range_is_the_same_whether_it_is_kept_or_not(
    data: bytes, budget: MemoryBudget | None, kind: type, size_max: int | None
) -> None:
    records = MemoryRecords(data)
    expected = b"".join(bytes(piece) for piece in convert(records, 1, 1, POLICY))
    converted = convert_range(records, 1, 1, POLICY, budget)
    assert isinstance(converted, kind)
    assert converted.size == len(expected)
    head = bytes(head_of(converted, records, 1, 1, POLICY))
    assert expected.startswith(head)
    assert head
    assert sent(to_send(converted, size_max)) == expected[:size_max]


def test_where_reading_goes_on() -> None:
    whole = MemoryRecords(PLAIN)
    assert end_offset_of(whole) == 4
    assert end_offset_of(MemoryRecords(PLAIN[:-1])) == 2
    assert end_offset_of(MemoryRecords(PLAIN[:20])) is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(ErrorCode.FENCED_LEADER_EPOCH), ErrorCode.FENCED_LEADER_EPOCH),
        (OffsetOutOfRangeError(1, 2, 3, "t-0"), ErrorCode.OFFSET_OUT_OF_RANGE),
        (UnsupportedCodecError("zstd", 0), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (RecordTooLargeError(9, 8, 0), ErrorCode.MESSAGE_TOO_LARGE),
        (StorageError("disk"), ErrorCode.KAFKA_STORAGE_ERROR),
        (OSError(5, "disk"), ErrorCode.KAFKA_STORAGE_ERROR),
        (CorruptRecordsError("bad", 0), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_a_client_is_told(error: ApiError | StorageError | OSError, code: ErrorCode) -> None:
    assert error_code_of(error) is code


@pytest.mark.parametrize(
    ("code", "version", "known"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, 5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.KAFKA_STORAGE_ERROR, 6, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.FENCED_LEADER_EPOCH, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.OFFSET_NOT_AVAILABLE, 0, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_ID, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.UNKNOWN_TOPIC_ID, 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (ErrorCode.CORRUPT_MESSAGE, 0, ErrorCode.CORRUPT_MESSAGE),
        (12345, 0, 12345),  # of a cluster that is newer than this
    ],
)
def test_codes_are_said_as_the_clients_version_knows_them(
    code: int, version: int, known: int
) -> None:
    assert known_code(code, version) == known
