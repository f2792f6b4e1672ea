"""Rows to records of v2, or to messages of v0 or v1.

Not here: headers of batches, compression (builder.py)."""

from records.formats import MESSAGE_OVERHEAD, PREFIX, V0, V1, V2, TimestampType
from records.kernel import ROW_FIELDS, ROW_SIZE, Buffer, Outcome, Progress
from records.varint import varint, varlong

from .call import Stop, Target
from .places import wrapped
from .writing import ROW, message

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
    rows_ = memoryview(rows).cast("B")
    if not 0 <= rows_start <= rows_end <= len(rows_):
        raise ValueError("the range is not inside of the rows")
    if (rows_end - rows_start) % ROW_SIZE:
        raise ValueError("the rows are not whole")
    room = Target(target, at, limit, source)
    view = memoryview(source).cast("B")
    for row_at in range(rows_start, rows_end, ROW_SIZE):
        row = dict(zip(ROW_FIELDS, ROW.unpack_from(rows_, row_at), strict=True))
        if magic == V2:
            encoded = _record(row, view, base_offset, base_timestamp)
        else:
            encoded = _message(row, view, magic, base_offset)
        try:
            room.put(encoded)
        except Stop as stop:
            return row_at - rows_start, room.produced, stop.outcome
    return rows_end - rows_start, room.produced, Outcome.END


def _record(
    row: dict[str, int], source: memoryview, base_offset: int, base_timestamp: int
) -> bytes:
    key = _field(source, row["key_at"], row["key_size"])
    value = _field(source, row["value_at"], row["value_size"])
    if row["headers_size"] < 0:
        raise ValueError("headers have a negative size")
    headers = _inside(source, row["headers_at"], row["headers_size"])
    count = row["headers_count"]
    offset_delta = row["offset"] - base_offset
    if not -(2**31) <= offset_delta <= INT32_MAX:
        raise ValueError("the offset delta is no 32-bit integer")
    if not 0 <= count <= INT32_MAX:
        raise ValueError("the header count is no 32-bit integer, or negative")
    head = b"\0" + varlong(wrapped(row["timestamp"] - base_timestamp)) + varint(offset_delta)
    parts = [head, *_sized(key), *_sized(value), varint(count), headers]
    size = sum(len(part) for part in parts)
    if size > INT32_MAX:
        raise ValueError("the record is too large")
    return varint(size) + b"".join(parts)


def _message(row: dict[str, int], source: memoryview, magic: int, base_offset: int) -> bytes:
    key = _field(source, row["key_at"], row["key_size"])
    value = _field(source, row["value_at"], row["value_size"])
    size = MESSAGE_OVERHEAD[magic] - PREFIX.size + len(key or b"") + len(value or b"")
    if size > INT32_MAX:
        raise ValueError("the message is too large")
    return message(
        magic,
        wrapped(row["offset"] - base_offset),
        row["timestamp"],
        row["timestamp_type"] == TimestampType.LOG_APPEND,
        key,
        value,
    )


def _sized(field: memoryview | None) -> tuple[bytes, bytes | memoryview]:
    return (varint(-1), b"") if field is None else (varint(len(field)), field)


def _field(source: memoryview, at: int, size: int) -> memoryview | None:
    return None if size < 0 else _inside(source, at, size)


def _inside(source: memoryview, at: int, size: int) -> memoryview:
    if at < 0 or size > len(source) - at:
        raise ValueError("a position is outside of the source")
    return source[at : at + size]
