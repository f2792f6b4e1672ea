"""Rows to columns, as Arrow lays them out.

Not here: rows to records (making.py)."""

from array import array
from itertools import accumulate

from records.kernel import Buffer

from .rows import headers_in, part, rows_between


def gather_column(
    rows: Buffer,
    rows_start: int,
    rows_end: int,
    source: Buffer,
    values: bool,
    ends: Buffer,
    validity: Buffer,
    data: Buffer,
) -> tuple[int, int]:
    """See `GatherColumn` in kernel.py."""
    view = memoryview(source).cast("B")
    column: list[memoryview | None] = []
    for row in rows_between(rows, rows_start, rows_end):
        at, size = row[5:7] if values else row[3:5]
        column.append(part(view, at, size) if size >= 0 else None)
    content = b"".join(field or b"" for field in column)
    _write(ends, _ends([len(field or b"") for field in column]))
    _write(validity, _bits([field is not None for field in column]))
    _write(data, content)
    return len(content), column.count(None)


def gather_headers(
    rows: Buffer, rows_start: int, rows_end: int, source: Buffer
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]:
    """See `GatherHeaders` in kernel.py."""
    view = memoryview(source).cast("B")
    counts = []
    keys: list[bytes] = []
    values: list[bytes | None] = []
    for *_, at, size, count in rows_between(rows, rows_start, rows_end):
        for key, value in headers_in(part(view, at, size), count):
            keys.append(key.decode("utf-8", "replace").encode())
            values.append(value)
        counts.append(count)
    return (
        _ends(counts),
        _ends([len(key) for key in keys]),
        b"".join(keys),
        _ends([len(value or b"") for value in values]),
        b"".join(value or b"" for value in values),
        _bits([value is not None for value in values]),
    )


def _ends(sizes: list[int]) -> bytes:
    try:
        return array("i", accumulate(sizes, initial=0)).tobytes()
    except OverflowError:
        raise ValueError("a column is larger than 2 GiB") from None


def _bits(flags: list[bool]) -> bytes:
    bits = bytearray((len(flags) + 7) // 8)
    for index, flag in enumerate(flags):
        bits[index // 8] |= flag << (index % 8)
    return bytes(bits)


def _write(target: Buffer, content: bytes) -> None:
    view = memoryview(target).cast("B")
    if len(view) < len(content):
        raise ValueError("the targets have no room for these rows")
    view[: len(content)] = content
