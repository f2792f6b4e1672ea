"""The records field of a fetch's response is put together from its parts."""

from io import BytesIO

import pytest

from downconvert import ConversionPolicy, LazyDownConvertRecords
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.serving.fetch_assembly import (
    JOINED_SIZE_MAX,
    end_offset_of,
    error_code_of,
    first_visible,
    hard_size,
    has_record_from,
    has_visible_record,
    may_join_next,
)
from downconvert.storage import OffsetOutOfRangeError, StorageError
from records import (
    Codec,
    ControlRecordType,
    CorruptRecordsError,
    MemoryRecords,
    build_empty,
    build_marker,
)
from records.errors import UnsupportedCodecError
from records.files.sends import Send
from records.formats import BATCH_HEADER_SIZE
from tests.damage import spliced
from tests.downconvert.storage.logs import batch

POLICY = ConversionPolicy(trim_compressed=False)  # sizes are measured
PLAIN = batch(0, 1) + batch(2, 3)
PACKED = batch(0, 1, codec=Codec.GZIP) + batch(2, 3, codec=Codec.GZIP)


def sent(send: Send) -> bytes:
    channel = BytesIO()
    while not send.completed:
        send.write_to(channel)
    return channel.getvalue()


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
        (StorageError("disk"), ErrorCode.KAFKA_STORAGE_ERROR),
        (OSError(5, "disk"), ErrorCode.KAFKA_STORAGE_ERROR),
        (CorruptRecordsError("bad", 0), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_errors_of_a_log_have_kafkas_codes(
    error: ApiError | StorageError | OSError, code: ErrorCode
) -> None:
    assert error_code_of(error) is code


# The batches that a client has read completely, and those that follow.
CLEANED = batch(0, last_offset=9)
EMPTY = build_empty(base_offset=10, last_offset=19)
DAMAGED = spliced(batch(10, 12, codec=Codec.GZIP), BATCH_HEADER_SIZE, b"no gzip", drop=7)
MARKER = build_marker(ControlRecordType.COMMIT, offset=20, timestamp=0, producer_id=1)
EARLIER_MARKER = build_marker(ControlRecordType.ABORT, offset=6, timestamp=0, producer_id=1)


@pytest.mark.parametrize(
    ("data", "offset", "wants_markers", "base_offset", "end"),
    [
        (PLAIN, 0, False, 0, None),
        (PLAIN, 1, False, 0, None),
        (PLAIN, 2, False, 2, 2),
        (PACKED, 2, False, 2, 2),
        (CLEANED + EMPTY + MARKER + batch(21), 5, False, 21, 21),
        (CLEANED + EMPTY + MARKER + batch(21), 5, True, 20, 20),
        (CLEANED + EMPTY + MARKER, 5, False, None, 21),
        (MARKER + EARLIER_MARKER, 5, False, None, 21),  # offsets that fall
        (MARKER + EARLIER_MARKER + batch(7), 5, False, 7, 21),
        (
            CLEANED
            + spliced(batch(10, 12, codec=Codec.GZIP), BATCH_HEADER_SIZE, b"no gzip", drop=7)
            + PLAIN,
            11,
            False,
            10,
            10,
        ),
        (PLAIN[:20], 0, False, None, None),
        (batch(0, magic=1), 5, False, 0, None),
    ],
)
def test_a_response_begins_with_the_first_batch_that_has_something_for_the_client(
    data: bytes, offset: int, wants_markers: bool, base_offset: int | None, end: int | None
) -> None:
    found = first_visible(MemoryRecords(data), offset, wants_markers=wants_markers)
    assert (found.header and found.header.base_offset) == base_offset
    assert found.end == end


@pytest.mark.parametrize(
    ("used", "room", "joins"),
    [(0, 1, True), (JOINED_SIZE_MAX, 1, True), (JOINED_SIZE_MAX + 1, 1, False), (100, 0, False)],
)
def test_little_is_joined_with_what_follows(used: int, room: int, joins: bool) -> None:
    assert may_join_next(used, room) is joins


def test_a_hard_limit_is_known_without_a_look_where_batches_are_small_and_plain() -> None:
    def head() -> bytes:
        raise AssertionError("it has been looked at")

    (plain,) = MemoryRecords(batch(1, size=100)).batches()
    limit = plain.size + 34  # what a message of v1 takes besides key and value
    assert hard_size(limit + 1, limit, head, plain) == limit
    assert hard_size(limit, limit, head) is None
    for first in (plain._replace(codec=Codec.GZIP), plain._replace(size=plain.size + 1), None):
        with pytest.raises(AssertionError):
            hard_size(limit + 1, limit, head, first)


@pytest.mark.parametrize(("limit", "size"), [(1, 1), (0, 0), (-1, 0)])
def test_an_estimate_of_what_converts_to_nothing_is_cut_at_a_hard_limit(
    limit: int, size: int
) -> None:
    records = MemoryRecords(build_empty(base_offset=0, last_offset=3))
    policy = ConversionPolicy(size="estimate")
    lazy = LazyDownConvertRecords(records, 1, 0, policy)
    assert lazy.size > 1
    assert hard_size(lazy.size, limit, lazy.head) == size


@pytest.mark.parametrize(
    ("data", "offset", "is_seen"),
    [
        (batch(20), 0, True),
        (batch(20), 20, True),
        (batch(20), 21, False),
        (batch(20, 21, 22), 22, True),
        (batch(20, 21, 22), 23, False),
        (MARKER, 0, False),  # its header alone looks like that of a batch with one record
        (MARKER, 20, False),
    ],
)
def test_a_marker_is_no_record_that_a_client_sees(data: bytes, offset: int, is_seen: bool) -> None:
    records = MemoryRecords(data)
    (header,) = records.batches()
    assert has_visible_record(header, offset) is is_seen
    assert has_record_from(records, header, offset) is is_seen
