"""Writes to a target: messages of v0 and v1, and rows.

Not here: the target itself (call.py)."""

import zlib

from records.formats import (
    LOG_APPEND_TIME,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    PREFIX,
    SIZE_FIELD,
    V1,
)
from records.record import ROW

from .items import Item


def message(
    magic: int,
    offset: int,
    timestamp: int,
    log_append: bool,
    key: bytes | memoryview | None,
    value: bytes | memoryview | None,
    codec: int = 0,
) -> bytes:
    """A message of v1, or of v0, which has no timestamp. The value is compressed with `codec`."""
    size = MESSAGE_OVERHEAD[magic] - PREFIX.size + len(key or b"") + len(value or b"")
    attributes = codec | (LOG_APPEND_TIME if magic == V1 and log_append else 0)
    timestamps = (timestamp,) if magic == V1 else ()
    head = MESSAGE_HEAD[magic]
    body = _sized(key) + _sized(value)
    crc = zlib.crc32((head.pack(offset, size, 0, magic, attributes, *timestamps) + body)[MAGIC_AT:])
    return head.pack(offset, size, crc, magic, attributes, *timestamps) + body


def row(item: Item) -> bytes:
    payload = item.payload
    return ROW.pack(
        item.offset,
        item.timestamp,
        item.timestamp_type,
        payload.key_at,
        payload.key_size,
        payload.value_at,
        payload.value_size,
        payload.headers_at,
        payload.headers_size,
        payload.headers_count,
    )


def _sized(field: bytes | memoryview | None) -> bytes:
    return SIZE_FIELD.pack(-1) if field is None else SIZE_FIELD.pack(len(field)) + field
