"""Reads one record or message: the positions of its key and value, and its errors.

Not here: whether it is kept (transcoder.py), whether it may follow the last one (account.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from records.formats import MESSAGE_HEAD, MESSAGE_OVERHEAD, NO_TIMESTAMP, SIZE_FIELD, TimestampType
from records.kernel import Buffer, Outcome
from records.varint import VarintCutError, VarintTooLongError, read_varint, read_varlong

from .call import Damaged, Stop, Window

RECORD_ENDS: Final = "record ends before its fields"


@dataclass(frozen=True, slots=True)
class Payload:
    """The contents of a record or message: positions in the source. A size of -1 is null."""

    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int
    headers_size: int
    headers_count: int

    def contents(self, source: memoryview) -> tuple[bytes | None, bytes | None]:
        """Key and value."""
        return (
            _slice(source, self.key_at, self.key_size),
            _slice(source, self.value_at, self.value_size),
        )


def _slice(source: memoryview, at: int, size: int) -> bytes | None:
    return bytes(source[at : at + size]) if size >= 0 else None


@dataclass(frozen=True, slots=True)
class Item:
    """A record or message with its offset and timestamp, which depend on its place."""

    offset: int
    timestamp: int  # milliseconds
    timestamp_type: TimestampType
    payload: Payload


class Fields:
    """The fields of one item, read forward.

    No field may reach outside `source[at:end]`. The bytes before `here` are in the window."""

    def __init__(self, source: memoryview, at: int, end: int, here: int) -> None:
        self._source = source
        self._here = min(here, end)
        self.at = at
        self.end = end

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, size: int, reason: str) -> int:
        """Skips `size` bytes, or none for null. Returns where they begin."""
        size = max(size, 0)
        if size > self.left:
            raise Damaged(reason)
        if size > self._here - self.at:
            raise Stop(Outcome.SOURCE)
        self.at += size
        return self.at - size

    def varint(self, reason: str = RECORD_ENDS) -> int:
        return self._number(read_varint, reason)

    def varlong(self) -> int:
        return self._number(read_varlong, RECORD_ENDS)

    def size_field(self, reason: str) -> int:
        """The size of a key or value in v0 and v1; -1 for null."""
        at = self.take(SIZE_FIELD.size, reason)
        size: int = SIZE_FIELD.unpack_from(self._source, at)[0]
        return max(size, -1)

    def _number(self, read: Callable[[Buffer, int, int], tuple[int, int]], reason: str) -> int:
        try:
            number, self.at = read(self._source, self.at, self._here)
        except VarintTooLongError:
            raise Damaged("varint is too long") from None
        except VarintCutError:
            if self._here < self.end:
                raise Stop(Outcome.SOURCE) from None
            raise Damaged(reason) from None
        return number


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The beginning of a v2 record, up to its key. A size of -1 is null."""

    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_size: int
    end: int  # of the record


def record_body(window: Window, left: int) -> Fields:
    """Rule 2 of records. Only a part of the body may be in the window.

    `left`: bytes to the end of the batch."""
    end = window.at + min(left, window.remaining)
    fields = Fields(window.source, window.at, end, window.end)
    size = fields.varint("batch ends before its last record")
    if size < 0:
        raise Damaged("negative record size")
    if size > fields.left:
        raise Damaged("record runs past its batch")
    return Fields(window.source, fields.at, fields.at + size, window.end)


def record_head(body: Fields) -> RecordHead:
    """Rule 3 of records, up to the key."""
    body.take(1, RECORD_ENDS)  # attributes, none of which is in use
    timestamp_delta = body.varlong()
    offset_delta = body.varint()
    key_size = max(body.varint(), -1)
    if key_size > body.left:
        raise Damaged("key runs past its record")
    return RecordHead(timestamp_delta, offset_delta, body.at, key_size, body.end)


def record(window: Window, left: int) -> tuple[RecordHead, Payload]:
    """Rules 2 and 3 of records."""
    body = record_body(window, left)
    window.need(body.end - window.at)
    head = record_head(body)
    key_at = body.take(head.key_size, "key runs past its record")
    value_size = max(body.varint(), -1)
    value_at = body.take(value_size, "value runs past its record")
    headers_count = body.varint()
    if headers_count < 0:
        raise Damaged("negative header count")
    if headers_count > body.left:
        raise Damaged("more headers than bytes")
    headers_at = body.at
    for _ in range(headers_count):
        size = body.varint()
        if size < 0:
            raise Damaged("header key is null")
        body.take(size, "header key runs past its record")
        body.take(body.varint(), "header value runs past its record")
    if body.left:
        raise Damaged("bytes left after the record's fields")
    headers_size = body.at - headers_at
    return head, Payload(
        key_at, head.key_size, value_at, value_size, headers_at, headers_size, headers_count
    )


def offset_and_timestamp(window: Window, magic: int) -> tuple[int, int]:
    """The offset and timestamp fields of the v0 or v1 message at the window's position."""
    offset, _, _, _, _, *timestamps = MESSAGE_HEAD[magic].unpack_from(window.source, window.at)
    return offset, timestamps[0] if timestamps else NO_TIMESTAMP


def message(window: Window, magic: int, size: int) -> Payload:
    """Rule 6 of a log, for a v0 or v1 message of `size` bytes that is whole in the window."""
    if size < MESSAGE_OVERHEAD[magic]:
        raise Damaged("message is smaller than its header")
    end = window.at + size
    fields = Fields(window.source, window.at + MESSAGE_HEAD[magic].size, end, end)
    key_size = fields.size_field("key runs past its message")
    key_at = fields.take(key_size, "key runs past its message")
    value_size = fields.size_field("value runs past its message")
    value_at = fields.take(value_size, "value runs past its message")
    return Payload(key_at, key_size, value_at, value_size, fields.at, 0, 0)
