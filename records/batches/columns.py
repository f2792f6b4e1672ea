"""Records as columns, and the conversion of columns to the kernel's rows.

A list for each field costs a fraction of an object for each record. To write records by the
million, fill columns; to write a few `Record`s, use `Columns.of`.

Not here: the encoding of rows (kernel.py), and of the batch around them (builder.py)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, Self

from records.formats import TimestampType
from records.kernel import ROW_FIELDS
from records.record import ROW, Headers, Record
from records.varint import varint

FIELDS: Final = len(ROW_FIELDS)
AT: Final = {name: index for index, name in enumerate(ROW_FIELDS)}
NULL: Final = -1  # in place of a size


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
        count = len(self.offsets)
        is_even = count == len(self.timestamps) == len(self.keys) == len(self.values)
        if not is_even or (self.headers and len(self.headers) != count):
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

    def rows(self, timestamp_type: TimestampType) -> tuple[bytes, bytes]:
        """The rows, and the bytes that they point into."""
        parts: list[bytes] = []
        rows, at, pack = [], 0, ROW.pack
        headers = self.headers or repeat(())
        # One record at a time: most batches that are built have only a few.
        for offset, timestamp, key, value, of_record in zip(
            self.offsets, self.timestamps, self.keys, self.values, headers, strict=False
        ):
            key_at, key_size, value_size, headers_size = at, NULL, NULL, 0
            if key is not None:
                parts.append(key)
                key_size = len(key)
                at += key_size
            value_at = at
            if value is not None:
                parts.append(value)
                value_size = len(value)
                at += value_size
            headers_at = at
            if of_record:
                encoded = encoded_headers(of_record)
                parts.append(encoded)
                headers_size = len(encoded)
                at += headers_size
            sizes = key_at, key_size, value_at, value_size, headers_at, headers_size
            rows.append(pack(offset, timestamp, timestamp_type, *sizes, len(of_record)))
        return b"".join(rows), b"".join(parts)


def encoded_headers(headers: Headers) -> bytes:
    """The headers of a v2 record, without their count."""
    encoded = bytearray()
    for key, value in headers:
        name = key.encode("utf-8", "surrogateescape")
        encoded += varint(len(name)) + name
        encoded += varint(-1) if value is None else varint(len(value)) + value
    return bytes(encoded)
