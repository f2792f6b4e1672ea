"""Compressed v0 and v1 messages, *wrappers*: messages whose value is other messages, compressed.

Where the value lies in one that was read, and how one is written. Source: Kafka's
AbstractLegacyRecordBatch, MemoryRecordsBuilder; drawn in docs/formats.md.

Not here: what is inside (the kernel), offsets and timestamps of what is inside (reader.py)."""

from collections.abc import Iterator
from typing import Final

from .backend import crc32
from .errors import CorruptRecordsError
from .formats import (
    CRC,
    CRC_AT_LEGACY,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    PREFIX,
    SIZE_FIELD,
    V1,
)
from .kernel import Buffer
from .source import TRUNCATED, Records

NULL: Final = SIZE_FIELD.pack(-1)
SIZE_MAX: Final = 2**31 - 1  # of a message, after its size field
ZEROS: Final = bytes(64 * 1024)


def value_range(records: Records, position: int, size: int, magic: int) -> tuple[int, int]:
    """Where in the message of `size` bytes at `position` its value begins and ends.

    A key, which wrappers have where they are padded, is skipped. CorruptRecordsError where there is
    no value."""

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


def wrapper(value: Buffer, *, magic: int, offset: int, attributes: int, timestamp: int) -> bytes:
    """The message whose value is these compressed messages. v0 has no timestamp."""
    size = MESSAGE_OVERHEAD[magic] - PREFIX.size + len(value)
    time = (timestamp,) if magic == V1 else ()
    head = bytearray(MESSAGE_HEAD[magic].pack(offset, size, 0, magic, attributes, *time))
    head += NULL + SIZE_FIELD.pack(len(value))
    CRC.pack_into(
        head, CRC_AT_LEGACY, crc32(value, 0, len(value), crc32(head, MAGIC_AT, len(head)))
    )
    return b"".join((head, value))


def padded(message: bytes, size: int) -> Iterator[Buffer]:
    """A compressed message that is `size` bytes longer: its key, null by convention, has as many
    zeros. Its bytes, in pieces.

    Readers skip the key on their way to the value. ValueError: the message has a key, or would be
    larger than a message can be."""
    if not size:
        yield message
        return
    magic = message[MAGIC_AT]
    key_at = MESSAGE_HEAD[magic].size
    value_at = key_at + SIZE_FIELD.size
    if size < 0 or message[key_at:value_at] != NULL:
        raise ValueError("only a message without a key can be padded, and not by less than nothing")
    offset, length = PREFIX.unpack_from(message)
    if length + size > SIZE_MAX:
        raise ValueError(f"a message of {length} bytes cannot have {size} more")
    head = bytearray(message[:value_at])
    PREFIX.pack_into(head, 0, offset, length + size)
    SIZE_FIELD.pack_into(head, key_at, size)
    crc = crc32(head, MAGIC_AT, len(head))
    for zeros in _zeros(size):
        crc = crc32(zeros, 0, len(zeros), crc)
    CRC.pack_into(head, CRC_AT_LEGACY, crc32(message, value_at, len(message), crc))
    yield head + ZEROS[:size]
    yield from _zeros(size - len(ZEROS))
    yield memoryview(message)[value_at:]


def unpadded(message: bytes) -> bytes:
    """What was `padded`: the compressed message with null for its key, whatever that is."""
    key_at = MESSAGE_HEAD[message[MAGIC_AT]].size
    value_at = key_at + SIZE_FIELD.size
    (size,) = SIZE_FIELD.unpack_from(message, key_at)
    if size < 0:
        return message
    offset, length = PREFIX.unpack_from(message)
    made = bytearray(message[:key_at] + NULL + message[value_at + size :])
    PREFIX.pack_into(made, 0, offset, length - size)
    CRC.pack_into(made, CRC_AT_LEGACY, crc32(made, MAGIC_AT, len(made)))
    return bytes(made)


def _zeros(size: int) -> Iterator[bytes]:
    while size > 0:
        yield ZEROS[:size]
        size -= len(ZEROS)
