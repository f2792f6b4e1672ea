"""Rows to records, one after the other.

Not here: rows to columns (gathering.py)."""

import zlib

from records.formats import (
    CRC,
    CRC_AT_LEGACY,
    MAGIC_AT,
    NO_TIMESTAMP,
    PREFIX,
    SIZE_FIELD,
    V0,
    TimestampType,
)
from records.kernel import Buffer
from records.record import Headers, Record, Row

from .rows import field, headers_in, part, rows_between

SEQUENCE_MAX = 2**31 - 1  # sequence numbers wrap to 0 after it
NO_SEQUENCE = -1


def make_records(
    rows: Buffer,
    rows_start: int,
    rows_end: int,
    source: Buffer,
    base_offset: int,
    base_sequence: int,
) -> list[Record]:
    """See `MakeRecords` in kernel_functions.py."""
    view = memoryview(source).cast("B")
    made = []
    for row in rows_between(rows, rows_start, rows_end):
        sequence = NO_SEQUENCE
        if base_sequence >= 0:
            sequence = (base_sequence + row[0] - base_offset) & SEQUENCE_MAX
        made.append(_record(row, view, row[1], TimestampType(row[2]), sequence))
    return made


def make_inner_records(
    rows: Buffer,
    rows_start: int,
    rows_end: int,
    source: Buffer,
    at: int,
    timestamp_type: int,
    verify: bool,
) -> tuple[list[Record], int]:
    """See `MakeInnerRecords` in kernel_functions.py."""
    view = memoryview(source).cast("B")
    outer_type = TimestampType(timestamp_type)
    made: list[Record] = []
    for row in rows_between(rows, rows_start, rows_end):
        message = _message(view, at)
        if verify and not _is_sound(message):
            break
        timestamp, kind = row[1], outer_type
        if message[MAGIC_AT] == V0:
            timestamp, kind = NO_TIMESTAMP, TimestampType.NONE
        made.append(_record(row, view, timestamp, kind, NO_SEQUENCE))
        at += len(message)
    return made, at


def read_entries(
    source: Buffer,
    start: int,
    end: int,
    verify: bool,  # noqa: ARG001 - nothing is read
    control: bool,  # noqa: ARG001 - as above
    size_max: int,
) -> tuple[list[Record], int]:
    """See `ReadEntries` in kernel_functions.py. Leaves every entry to the caller. Tests compare the
    native kernel with the caller's steps."""
    if not 0 <= start <= end <= len(memoryview(source).cast("B")) or size_max < 0:
        raise ValueError("the range is not inside of the source")
    return [], 0


def summarize_batch(source: Buffer, start: int, end: int, size_max: int) -> None:
    """See `SummarizeBatch` in kernel_functions.py. Leaves every batch to the caller, as above."""
    if not 0 <= start <= end <= len(memoryview(source).cast("B")) or size_max < 0:
        raise ValueError("the range is not inside of the source")


def _message(source: memoryview, at: int) -> memoryview:
    """The message at that index."""
    size_at = at + PREFIX.size - SIZE_FIELD.size
    if at >= 0 and size_at + SIZE_FIELD.size <= len(source):
        size = PREFIX.size + SIZE_FIELD.unpack_from(source, size_at)[0]
        if MAGIC_AT < size <= len(source) - at:
            return source[at : at + size]
    raise ValueError("rows are not those of the messages")


def _is_sound(message: memoryview) -> bool:
    """Whether a message has the checksum that it states."""
    crc: int = CRC.unpack_from(message, CRC_AT_LEGACY)[0]
    return zlib.crc32(message[MAGIC_AT:]) == crc


def _record(
    row: Row, source: memoryview, timestamp: int, kind: TimestampType, sequence: int
) -> Record:
    offset, _, _, key_at, key_size, value_at, value_size, headers_at, headers_size, count = row
    key, value = field(source, key_at, key_size), field(source, value_at, value_size)
    return Record(
        offset,
        timestamp,
        kind,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        _headers(part(source, headers_at, headers_size), count),
        sequence,
    )


def _headers(encoded: memoryview, count: int) -> Headers:
    return tuple(
        (bytes(key).decode("utf-8", "surrogateescape"), value)
        for key, value in headers_in(encoded, count)
    )
