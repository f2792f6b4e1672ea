"""Reads records larger than a window twice, once for their CRC and once to send them.

An older message states its CRC before its key and value, and a record need not fit in memory. So
one cursor reads ahead to the record's end, checks the record and computes the CRC. Another cursor
then reads it again for sending. In a file, both cursors are positions. In a compressed batch, the
second one is a second decoder.

Both cursors work in steps, so that other connections have their turns in between.

The checks and error texts equal those of the kernel (records/kernel.py), which sees only records
that fit.

Not here: reading from a position (cursors.py), where large records occur and their conversion
(oversize.py, large_inner.py)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from records.backend import crc32
from records.batches.compressed import STEP_SIZE
from records.formats import (
    LOG_APPEND_TIME,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    PREFIX,
    SIZE_FIELD,
    V1,
)
from records.kernel import Buffer, Transcoder
from records.steps import Steps

from .cursors import Cursor, Scan

SIZE_MAX: Final = 2**31 - 1
HEADERS_A_STEP: Final = 8  # Python reads each header byte by byte
_VARINT_SIZE_MAX: Final = 5

Damage = Callable[[str], Exception]


@dataclass(frozen=True, slots=True)
class LargeMessage:
    """An older message. Its key and value are still in the source: `before_key` bytes after the
    record's first byte, and `between` bytes after the key's last byte."""

    head: bytes  # up to the key
    before_key: int
    key_size: int
    between: int
    value_size: int

    @property
    def size(self) -> int:
        return len(self.head) + max(self.key_size, 0) + SIZE_FIELD.size + max(self.value_size, 0)

    def at_offset(self, offset: int) -> "LargeMessage":
        """The same message with another offset. The CRC does not cover the offset."""
        _, size = PREFIX.unpack_from(self.head)
        return replace(self, head=PREFIX.pack(offset, size) + self.head[PREFIX.size :])

    def pieces(self, cursor: Cursor, target: memoryview) -> Iterator[int]:
        """Writes the message to `target`, and yields the size of each piece. The cursor is at the
        record's first byte."""
        filled = len(self.head)
        target[:filled] = self.head
        cursor.skip(self.before_key)
        yield from _copied(cursor, self.key_size, target, filled)
        cursor.skip(self.between)
        target[: SIZE_FIELD.size] = SIZE_FIELD.pack(self.value_size)
        yield from _copied(cursor, self.value_size, target, SIZE_FIELD.size)


def _copied(cursor: Cursor, size: int, target: memoryview, filled: int) -> Iterator[int]:
    """Copies `size` bytes to the target, after the first `filled` bytes. Yields the size of each
    piece: whenever the target is full, and at the end."""
    while size > 0:
        count = cursor.read_into(target[filled : filled + min(size, len(target) - filled)])
        size -= count
        filled += count
        if filled == len(target):
            yield filled
            filled = 0
    if filled:
        yield filled


class Scanned(NamedTuple):
    """A record or message that has been checked. size: its bytes in the source."""

    offset: int
    timestamp: int
    size: int
    message: LargeMessage


def scan_record(
    transcoder: Transcoder,
    window: tuple[Buffer, int, int, int],
    cursor: Scan,
    to_magic: int,
    scratch: memoryview | None,
    damage: Damage,
) -> Steps[Scanned]:
    """Checks the next v2 record from its first byte to its last, and moves the cursor after it.
    `window`: the arguments of `record_head`.

    Without `scratch`, keys and values are skipped and no CRC is computed, for callers that need
    only the size."""
    head = transcoder.record_head(*window)
    if head is None:
        reason, _ = transcoder.damage or ("damaged", 0)
        raise damage(reason)
    offset, timestamp, record_size, before_key, key_size = head
    message = MessageStart(to_magic, offset, timestamp, transcoder.append_time is not None)
    fields = _Fields(cursor, record_size, damage)
    fields.skip(before_key, "record ends before its fields")
    crc = message.checksum_start(key_size)
    crc = yield from fields.sum_up(key_size, crc, scratch, "key runs past its record")
    value_size, between = fields.varint()
    crc = _sum_up_size(value_size, crc)
    crc = yield from fields.sum_up(value_size, crc, scratch, "value runs past its record")
    headers_count, _ = fields.varint()
    if headers_count < 0:
        raise damage("negative header count")
    if headers_count > fields.left:
        raise damage("more headers than bytes")
    for number in range(1, headers_count + 1):
        size, _ = fields.varint()
        if size < 0:
            raise damage("header key is null")
        yield from fields.pass_over(size, "header key runs past its record")
        size, _ = fields.varint()
        yield from fields.pass_over(max(size, 0), "header value runs past its record")
        if number % HEADERS_A_STEP == 0:
            yield 0
    if fields.left:
        raise damage("bytes left after the record's fields")
    made = message.finished(key_size, max(value_size, -1), before_key, between, crc, damage)
    return Scanned(offset, timestamp, record_size, made)


def scan_message(
    cursor: Scan,
    message_size: int,
    before_key: int,
    message: "MessageStart",
    scratch: memoryview | None,
    damage: Damage,
) -> Steps[LargeMessage]:
    """Checks an uncompressed v0 or v1 message of a log, like `scan_record`. `before_key`: bytes
    before its key."""
    fields = _Fields(cursor, message_size, damage)
    fields.skip(before_key - SIZE_FIELD.size, "key runs past its message")
    key_size = max(fields.size_field("key runs past its message"), -1)
    crc = message.checksum_start(key_size)
    crc = yield from fields.sum_up(key_size, crc, scratch, "key runs past its message")
    value_size = max(fields.size_field("value runs past its message"), -1)
    crc = _sum_up_size(value_size, crc)
    crc = yield from fields.sum_up(value_size, crc, scratch, "value runs past its message")
    return message.finished(key_size, value_size, before_key, SIZE_FIELD.size, crc, damage)


def _sum_up_size(size: int, crc: int) -> int:
    return crc32(SIZE_FIELD.pack(max(size, -1)), 0, SIZE_FIELD.size, crc)


@dataclass(frozen=True, slots=True)
class MessageStart:
    """The fields of a message that are known before its key and value are read."""

    magic: int
    offset: int  # the offset field, which is relative in a v1 wrapper
    timestamp: int
    log_append: bool

    def _head(self, size: int, crc: int) -> bytes:
        attributes = LOG_APPEND_TIME if self.log_append and self.magic == V1 else 0
        timestamp = (self.timestamp,) if self.magic == V1 else ()
        return MESSAGE_HEAD[self.magic].pack(
            self.offset, size, crc, self.magic, attributes, *timestamp
        )

    def checksum_start(self, key_size: int) -> int:
        """CRC-32 of the message up to its key."""
        start = self._head(0, 0) + SIZE_FIELD.pack(key_size)
        return crc32(start, MAGIC_AT, len(start))

    def finished(
        self,
        key_size: int,
        value_size: int,
        before_key: int,
        between: int,
        crc: int,
        damage: Damage,
    ) -> LargeMessage:
        size = MESSAGE_OVERHEAD[self.magic] - PREFIX.size + max(key_size, 0) + max(value_size, 0)
        if size > SIZE_MAX:
            raise damage("record is too large for a message")
        head = self._head(size, crc) + SIZE_FIELD.pack(key_size)
        return LargeMessage(head, before_key, key_size, between, value_size)


class _Fields:
    """The fields of one record. No field may run past the record's end."""

    def __init__(self, cursor: Scan, size: int, damage: Damage) -> None:
        self._cursor = cursor
        self._damage = damage
        self.left = size

    def _take(self, size: int, reason: str) -> None:
        if size > self.left:
            raise self._damage(reason)
        self.left -= size

    def skip(self, size: int, reason: str) -> None:
        self._take(size, reason)
        self._cursor.skip(size)

    def pass_over(self, size: int, reason: str) -> Steps[None]:
        """Skips a field of any size."""
        self._take(size, reason)
        while size > STEP_SIZE:
            self._cursor.skip(STEP_SIZE)
            size -= STEP_SIZE
            yield 0
        self._cursor.skip(size)

    def _byte(self, reason: str) -> int:
        self._take(1, reason)
        return self._cursor.byte()

    def varint(self) -> tuple[int, int]:
        """Reads a zigzag varint. Returns it and its size in bytes."""
        raw = 0
        for index in range(_VARINT_SIZE_MAX):
            byte = self._byte("record ends before its fields")
            raw |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                raw &= 0xFFFFFFFF
                return (raw >> 1) ^ -(raw & 1), index + 1
        raise self._damage("varint is too long")

    def size_field(self, reason: str) -> int:
        return int(SIZE_FIELD.unpack(bytes(self._byte(reason) for _ in range(SIZE_FIELD.size)))[0])

    def sum_up(self, size: int, crc: int, scratch: memoryview | None, reason: str) -> Steps[int]:
        """Reads a key or value, and returns the CRC updated with it. Without `scratch`, only skips
        it."""
        if scratch is None:
            yield from self.pass_over(max(size, 0), reason)
            return crc
        self._take(max(size, 0), reason)
        while size > 0:
            count = self._cursor.read_into(scratch[: min(size, len(scratch))])
            crc = crc32(scratch, 0, count, crc)
            size -= count
            if size > 0:
                yield 0
        return crc
