"""One record, and how a row of the kernel's `columns` becomes one.

Not here: reading rows (reader.py).

Sources: Kafka's DefaultRecord and LegacyRecord."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from .backend import crc32
from .batch import NONE, BatchHeader
from .formats import CRC, CRC_AT_LEGACY, MAGIC_AT, NO_TIMESTAMP, V0, V2, TimestampType
from .kernel import ROW_FIELDS, ROW_SIZE, Buffer
from .varint import read_varint
from .window import Window

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
Row: TypeAlias = tuple[int, ...]

ROW: Final = Struct(f"={len(ROW_FIELDS)}q")
TIMESTAMP_TYPES: Final = {int(kind): kind for kind in TimestampType}
assert ROW.size == ROW_SIZE


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Header keys are text; bytes in them that are no UTF-8 become surrogates (`surrogateescape`), so
    that encoding the key the same way restores them."""

    offset: int
    timestamp: int  # milliseconds; -1 is none
    timestamp_type: TimestampType = TimestampType.CREATE
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    sequence: int = -1  # of an idempotent or transactional producer


def record_of(window: Window, row: Row, header: BatchHeader) -> Record:
    """A record of a v2 batch, or a message of a log."""
    offset, timestamp, kind, key_at, key_size, value_at, value_size, *headers = row
    return Record(
        offset,
        timestamp,
        TIMESTAMP_TYPES[kind],
        _bytes(window.view, key_at, key_size),
        _bytes(window.view, value_at, value_size),
        _headers(window.buffer, *headers) if headers[2] else (),
        header.sequence(offset - header.base_offset) if header.magic == V2 else NONE,
    )


def inner_record_of(window: Window, row: Row, at: int, header: BatchHeader) -> Record:
    """A message inside of a compressed one. What its timestamp means the compressed one says."""
    offset, timestamp, _, key_at, key_size, value_at, value_size, *_ = row
    kind = header.timestamp_type
    if window.buffer[at + MAGIC_AT] == V0:
        timestamp, kind = NO_TIMESTAMP, TimestampType.NONE
    return Record(
        offset,
        timestamp,
        kind,
        _bytes(window.view, key_at, key_size),
        _bytes(window.view, value_at, value_size),
    )


def is_sound(window: Window, at: int, end: int) -> bool:
    """Whether the message from `at` to `end` has the checksum that it says."""
    said: int = CRC.unpack_from(window.buffer, at + CRC_AT_LEGACY)[0]
    found: int = crc32(window.buffer, at + MAGIC_AT, end)
    return found == said


def _bytes(view: memoryview, at: int, size: int) -> bytes | None:
    return bytes(view[at : at + size]) if size >= 0 else None


def _headers(buffer: Buffer, at: int, size: int, count: int) -> Headers:
    """Headers that the kernel has checked: their sizes are right."""
    found = []
    fields = bytes(memoryview(buffer)[at : at + size])
    at = 0
    for _ in range(count):
        key_size, at = read_varint(fields, at, size)
        key = fields[at : at + key_size].decode("utf-8", "surrogateescape")
        value_size, at = read_varint(fields, at + key_size, size)
        value = fields[at : at + value_size] if value_size >= 0 else None
        at += max(value_size, 0)
        found.append((key, value))
    return tuple(found)
