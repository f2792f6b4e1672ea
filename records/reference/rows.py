"""Rows that a caller passes back, and the parts of the source that they point to.

Not here: writing rows (writing.py)."""

from collections.abc import Iterator

from records.kernel import ROW_SIZE, Buffer
from records.record import ROW, Row
from records.varint import read_varint


def rows_between(rows: Buffer, start: int, end: int) -> Iterator[Row]:
    view = memoryview(rows).cast("B")
    if not 0 <= start <= end <= len(view):
        raise ValueError("the range is not inside of the rows")
    if (end - start) % ROW_SIZE:
        raise ValueError("rows are not whole")
    for at in range(start, end, ROW_SIZE):
        yield ROW.unpack_from(view, at)


def part(source: memoryview, at: int, size: int) -> memoryview:
    if at < 0 or size < 0 or size > len(source) - at:
        raise ValueError("a position is outside of the source")
    return source[at : at + size]


def field(source: memoryview, at: int, size: int) -> memoryview | None:
    """A key or value. Negative sizes are null."""
    return part(source, at, size) if size >= 0 else None


def headers_in(encoded: memoryview, count: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys and values of `count` headers."""
    if not 0 <= count < 2**31:
        raise ValueError("a header count is no 32-bit integer")
    at, end = 0, len(encoded)
    for _ in range(count):
        size, at = read_varint(encoded, at, end)
        key = bytes(part(encoded, at, size))
        at += size
        size, at = read_varint(encoded, at, end)
        value = field(encoded, at, size)
        at += max(size, 0)
        yield key, None if value is None else bytes(value)
