"""Numbers, strings and tagged fields of the records in the brokers' own topics.

Kafka's definitions of requests do not contain these records, so they are read and written by hand.
`compact`: as in flexible versions.

Not here: the records (group_records.py, transaction_records.py)."""

from struct import Struct
from typing import Final

from .cursor import Cursor

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")


def number(cursor: Cursor, kind: Struct) -> int:
    """A number. UnreadableRecordError: the record ends too early. All functions below raise it,
    too."""
    value: int = kind.unpack_from(cursor.data, cursor.take(kind.size))[0]
    return value


def nullable(cursor: Cursor, *, compact: bool = False) -> str | None:
    size = cursor.uvarint() - 1 if compact else number(cursor, INT16)
    return None if size < 0 else cursor.text(size)


def text(cursor: Cursor, *, compact: bool = False) -> str:
    """A string; null counts as an empty one."""
    return nullable(cursor, compact=compact) or ""


def data_of(cursor: Cursor, *, compact: bool = False) -> bytes:
    """Bytes; null counts as none."""
    size = cursor.uvarint() - 1 if compact else number(cursor, INT32)
    if size < 0:
        return b""
    start = cursor.take(size)
    return bytes(cursor.data[start : start + size])


def tags(cursor: Cursor) -> dict[int, bytes]:
    """Tagged fields, unparsed."""
    found = {}
    for _ in range(cursor.uvarint()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        start = cursor.take(size)
        found[tag] = bytes(cursor.data[start : start + size])
    return found


def string(value: str | None) -> bytes:
    """A nullable string, not compact. struct.error: it is longer than 32,767 bytes."""
    if value is None:
        return INT16.pack(-1)
    encoded = value.encode()
    return INT16.pack(len(encoded)) + encoded
