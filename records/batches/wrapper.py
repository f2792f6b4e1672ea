"""Compressed v0 and v1 messages, *wrappers*: messages whose value is compressed messages.

This file finds the value of a wrapper, and builds wrappers. docs/formats.md draws the format.
Sources: Kafka's AbstractLegacyRecordBatch and MemoryRecordsBuilder.

Not here: the messages inside (the kernel), their offsets and timestamps (reader.py)."""

from typing import Final

from records.backend import crc32
from records.errors import CorruptRecordsError
from records.files.source import TRUNCATED, Records
from records.formats import (
    CRC,
    CRC_AT_LEGACY,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    PREFIX,
    SIZE_FIELD,
    V1,
)
from records.kernel import Buffer

NULL: Final = SIZE_FIELD.pack(-1)


def value_range(records: Records, position: int, size: int, magic: int) -> tuple[int, int]:
    """The beginning and the end of the value in the message of `size` bytes at `position`.

    Skips a key, which wrappers usually lack. CorruptRecordsError: there is no value."""

    def field(at: int) -> int:
        window = bytearray(SIZE_FIELD.size)
        if records.read_into(memoryview(window), position + at) < len(window):
            raise damage(TRUNCATED)
        return int(SIZE_FIELD.unpack(window)[0])

    def damage(reason: str) -> CorruptRecordsError:
        return CorruptRecordsError(reason, records.origin + position)

    key_at = MESSAGE_HEAD[magic].size + SIZE_FIELD.size
    if key_at > size:
        raise damage("message is smaller than its header")
    value_size_at = key_at + max(field(key_at - SIZE_FIELD.size), 0)
    if value_size_at > size:
        raise damage("key runs past its message")
    value_at = value_size_at + SIZE_FIELD.size
    if value_at > size:
        raise damage("value runs past its message")
    value_size = field(value_size_at)
    if value_size < 0:
        raise damage("compressed message has no value")
    if value_size > size - value_at:
        raise damage("value runs past its message")
    return value_at, value_at + value_size


def build_wrapper(
    value: Buffer, *, magic: int, offset: int, attributes: int, timestamp: int
) -> bytes:
    """The message whose value is these compressed messages. v0 has no timestamp."""
    size = MESSAGE_OVERHEAD[magic] - PREFIX.size + len(value)
    time = (timestamp,) if magic == V1 else ()
    head = bytearray(MESSAGE_HEAD[magic].pack(offset, size, 0, magic, attributes, *time))
    head += NULL + SIZE_FIELD.pack(len(value))
    CRC.pack_into(
        head, CRC_AT_LEGACY, crc32(value, 0, len(value), crc32(head, MAGIC_AT, len(head)))
    )
    return b"".join((head, value))
