"""Rows to columns in Arrow's layout.

Not here: rows to records (making.py)."""

from array import array
from collections.abc import Sequence
from itertools import accumulate

from records.formats import TimestampType
from records.kernel import ROW_SIZE, Buffer
from records.kernel_functions import Binary, HeaderLists, Taken
from records.record import Row

from .rows import field, headers_in, part, rows_between

COLUMN_SIZE_MAX = 2**31 - 1
GROWTH = 3  # a bad byte of a header's key becomes three
INT64 = range(-(2**63), 2**63)

Header = tuple[bytes, bytes | None]
Added = tuple[int, int, int, bytes | None, bytes | None, list[Header]]


class ArrowColumns:
    """See `ArrowColumns` in kernel_functions.py."""

    def __init__(
        self,
        rows_max: int,
        bytes_max: int,
        keys: bool,
        values: bool,
        headers: bool,
        offsets: tuple[int, int],
        timestamps: tuple[int, int],
    ) -> None:
        if rows_max < 1 or not 0 <= bytes_max <= COLUMN_SIZE_MAX:
            raise ValueError("no such size of columns")
        if any(bound not in INT64 for bound in (*offsets, *timestamps)):
            raise OverflowError("a bound is no 64-bit integer")
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._wanted = keys, values, headers
        self._offsets = offsets
        self._timestamps = timestamps
        self._added: list[Added] = []
        self._used = self._headers_used = 0  # bytes of all fields, and of the headers among them

    def __len__(self) -> int:
        return len(self._added)

    def add_entries(
        self,
        source: Buffer,
        start: int,
        end: int,
        verify: bool,  # noqa: ARG002 - nothing is read
        transactional: bool,  # noqa: ARG002 - as above
        size_max: int,
    ) -> tuple[int, bool]:
        """Leaves every entry to the caller. Tests compare the native kernel with the caller's
        steps."""
        if not 0 <= start <= end <= len(memoryview(source).cast("B")) or size_max < 0:
            raise ValueError("the range is not inside of the source")
        return 0, False

    def add_rows(self, rows: Buffer, start: int, end: int, source: Buffer) -> int:
        view = memoryview(source).cast("B")
        before = len(self._added), self._used, self._headers_used
        read = 0
        try:
            for row in rows_between(rows, start, end):
                if not self._add(row, view):
                    break
                read += ROW_SIZE
        except ValueError:
            count, self._used, self._headers_used = before
            del self._added[count:]
            raise
        return read

    def take(self) -> Taken:
        added, self._added = self._added, []
        self._used = self._headers_used = 0
        wants_keys, wants_values, wants_headers = self._wanted
        return (
            len(added),
            array("q", [each[0] for each in added]).tobytes(),
            array("q", [each[1] for each in added]).tobytes(),
            array("i", [each[2] for each in added]).tobytes(),
            _binary([each[3] for each in added]) if wants_keys else None,
            _binary([each[4] for each in added]) if wants_values else None,
            _lists([each[5] for each in added]) if wants_headers else None,
        )

    def _add(self, row: Row, source: memoryview) -> bool:
        """Adds a row. False: the row does not fit."""
        offset, timestamp, kind, key_at, key_size, value_at, value_size, at, size, count = row
        encoded = part(source, at, size)
        if not 0 <= count < 2**31:
            raise ValueError("a header count is no 32-bit integer")
        key, value = field(source, key_at, key_size), field(source, value_at, value_size)
        TimestampType(kind)
        (first, last), (first_time, last_time) = self._offsets, self._timestamps
        if not (first <= offset <= last and first_time <= timestamp <= last_time):
            return True
        wants_keys, wants_values, wants_headers = self._wanted
        key, value = key if wants_keys else None, value if wants_values else None
        has_headers = wants_headers and count
        more = len(key or b"") + len(value or b"") + (size if has_headers else 0)
        is_full = len(self._added) == self._rows_max
        if is_full or (self._added and self._used + more > self._bytes_max):
            return False
        if has_headers and size > (COLUMN_SIZE_MAX - self._headers_used) // GROWTH:
            raise ValueError("a column is larger than 2 GiB")
        headers = [
            (key.decode("utf-8", "replace").encode(), value)
            for key, value in (headers_in(encoded, count) if has_headers else ())
        ]
        self._added.append((offset, timestamp, kind, _bytes(key), _bytes(value), headers))
        added = sum(len(name) + len(content or b"") for name, content in headers)
        self._used += len(key or b"") + len(value or b"") + added
        self._headers_used += added
        return True


def _bytes(field: memoryview | None) -> bytes | None:
    return None if field is None else bytes(field)


def _binary(column: Sequence[bytes | None]) -> Binary:
    nulls = column.count(None)
    validity = _bits([field is not None for field in column]) if nulls else None
    content = [field or b"" for field in column]
    return nulls, validity, _ends(content), b"".join(content)


def _lists(column: Sequence[list[Header]]) -> HeaderLists:
    present = sum(1 for headers in column if headers)
    validity = _bits([bool(headers) for headers in column]) if present else None
    every = [header for headers in column for header in headers]
    keys, values = _binary([key for key, _ in every]), _binary([value for _, value in every])
    return present, validity, _ends(column), keys, values


def _ends(column: Sequence[Sequence[object]]) -> bytes:
    return array("i", accumulate(map(len, column), initial=0)).tobytes()


def _bits(flags: list[bool]) -> bytes:
    bits = bytearray((len(flags) + 7) // 8)
    for index, flag in enumerate(flags):
        bits[index // 8] |= flag << (index % 8)
    return bytes(bits)
