"""Records as columns, and the conversion of columns to the kernel's rows.

A list for each field costs a fraction of an object for each record. To write records by the
million, fill columns; to write a few `Record`s, use `Columns.of`.

Not here: the encoding of rows (kernel.py), and of the batch around them (builder.py)."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Self, TypeAlias

from records.formats import TimestampType
from records.kernel import ROW_FIELDS
from records.record import Headers, Record
from records.varint import varint

FIELDS: Final = len(ROW_FIELDS)
AT: Final = {name: index for index, name in enumerate(ROW_FIELDS)}
Int64s: TypeAlias = "array[int]"


@dataclass(frozen=True, slots=True)
class Columns:
    """Records, with a column for each field. All columns have the same length.

    `headers` may be empty: then no record has any."""

    offsets: Sequence[int]
    timestamps: Sequence[int]  # milliseconds
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers] = ()

    def __post_init__(self) -> None:
        sizes = {len(self.offsets), len(self.timestamps), len(self.keys), len(self.values)}
        if self.headers:
            sizes.add(len(self.headers))
        if len(sizes) != 1:
            raise ValueError("the columns are not of the same length")

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """The columns of records, without their timestamp types and sequence numbers."""
        records = list(records)
        headers = [record.headers for record in records]
        return cls(
            [record.offset for record in records],
            [record.timestamp for record in records],
            [record.key for record in records],
            [record.value for record in records],
            headers if any(headers) else (),
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def rows(self, timestamp_type: TimestampType) -> tuple[Int64s, bytes]:
        """The rows, and the bytes that they point into."""
        count = len(self.offsets)
        rows = array("q", bytes(8 * FIELDS * count))
        keys, key_sizes, keys_at = _laid_out(self.keys, 0)
        values, value_sizes, values_at = _laid_out(self.values, len(keys))
        columns: dict[str, Int64s] = {
            "offset": array("q", self.offsets),
            "timestamp": array("q", self.timestamps),
            "timestamp_type": array("q", [timestamp_type]) * count,
            "key_at": keys_at,
            "key_size": key_sizes,
            "value_at": values_at,
            "value_size": value_sizes,
        }
        source = keys + values
        if self.headers:
            encoded = [encoded_headers(headers) for headers in self.headers]
            headers, headers_sizes, headers_at = _laid_out(encoded, len(source))
            columns["headers_at"] = headers_at
            columns["headers_size"] = headers_sizes
            columns["headers_count"] = array("q", map(len, self.headers))
            source += headers
        for name, column in columns.items():
            rows[AT[name] :: FIELDS] = column
        return rows, source


def _laid_out(column: Sequence[bytes | None], at: int) -> tuple[bytes, Int64s, Int64s]:
    """A column's bytes joined, their sizes (-1: null), and their positions from `at` on."""
    present = [field or b"" for field in column]
    sizes = array("q", map(len, present))
    positions = array("q", accumulate(sizes, initial=at))
    positions.pop()  # the end of the last
    if None in column:
        for index, field in enumerate(column):
            if field is None:
                sizes[index] = -1
    return b"".join(present), sizes, positions


def encoded_headers(headers: Headers) -> bytes:
    """The headers of a v2 record, without their count."""
    encoded = bytearray()
    for key, value in headers:
        name = key.encode("utf-8", "surrogateescape")
        encoded += varint(len(name)) + name
        encoded += varint(-1) if value is None else varint(len(value)) + value
    return bytes(encoded)
