"""Rows to records of v2, or to messages of v0 or v1.

Not here: headers of batches, compression (builder.py)."""

from records.formats import MESSAGE_OVERHEAD, PREFIX, V0, V1, V2, TimestampType
from records.kernel import ROW_SIZE, Buffer, Outcome, Progress
from records.record import Row
from records.varint import varint, varlong

from .call import Stop, Target
from .places import wrapped
from .rows import field, part, rows_between
from .writing import message

INT32_MAX = 2**31 - 1


def encode(
    rows: Buffer,
    rows_start: int,
    rows_end: int,
    source: Buffer,
    magic: int,
    base_offset: int,
    base_timestamp: int,
    target: Buffer,
    at: int,
    limit: int,
) -> Progress:
    """See `Encode` in kernel_functions.py."""
    if magic not in (V0, V1, V2):
        raise ValueError("magic is not 0, 1 or 2")
    room = Target(target, at, limit, source)
    view = memoryview(source).cast("B")
    consumed = 0
    for row in rows_between(rows, rows_start, rows_end):
        if magic == V2:
            encoded = _record(row, view, base_offset, base_timestamp)
        else:
            encoded = _message(row, view, magic, base_offset)
        try:
            room.put(encoded)
        except Stop as stop:
            return consumed, room.produced, stop.outcome
        consumed += ROW_SIZE
    return consumed, room.produced, Outcome.END


def _record(row: Row, source: memoryview, base_offset: int, base_timestamp: int) -> bytes:
    offset, timestamp, _, key_at, key_size, value_at, value_size, at, size, count = row
    key, value = field(source, key_at, key_size), field(source, value_at, value_size)
    headers = part(source, at, size)
    offset_delta = offset - base_offset
    if not -(2**31) <= offset_delta <= INT32_MAX:
        raise ValueError("the offset delta is no 32-bit integer")
    if not 0 <= count <= INT32_MAX:
        raise ValueError("the header count is no 32-bit integer, or negative")
    head = b"\0" + varlong(wrapped(timestamp - base_timestamp)) + varint(offset_delta)
    parts = [head, *_sized(key), *_sized(value), varint(count), headers]
    size = sum(len(part) for part in parts)
    if size > INT32_MAX:
        raise ValueError("the record is too large")
    return varint(size) + b"".join(parts)


def _message(row: Row, source: memoryview, magic: int, base_offset: int) -> bytes:
    offset, timestamp, kind, key_at, key_size, value_at, value_size, *_ = row
    key, value = field(source, key_at, key_size), field(source, value_at, value_size)
    size = MESSAGE_OVERHEAD[magic] - PREFIX.size + len(key or b"") + len(value or b"")
    if size > INT32_MAX:
        raise ValueError("the message is too large")
    is_append_time = kind == TimestampType.LOG_APPEND
    return message(magic, wrapped(offset - base_offset), timestamp, is_append_time, key, value)


def _sized(field: memoryview | None) -> tuple[bytes, bytes | memoryview]:
    return (varint(-1), b"") if field is None else (varint(len(field)), field)
