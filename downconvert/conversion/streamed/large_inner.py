"""Finds and checks large records of a compressed batch, and large entries of a compressed message,
without holding them in memory.

Not here: reading their fields (large.py), sending them (body_converter.py)."""

from dataclasses import dataclass

from downconvert.conversion.request import Request
from records.formats import (
    ATTRIBUTES_AT_LEGACY,
    CODEC_MASK,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    NO_TIMESTAMP,
    PREFIX,
    SIZE_FIELD,
    V0,
    V1,
)
from records.kernel import Transcoder
from records.steps import Steps

from .body import DecompressedBody
from .cursors import BodyCursor
from .large import Damage, LargeMessage, MessageStart, scan_message, scan_record


@dataclass(frozen=True, slots=True)
class InnerFormat:
    """The contents of a body, and how they are converted.

    magic: of the messages made. is_batch: v2 records, else entries of a v0 or v1 message.
    offset_delta: added to the offsets of those entries. trim: records below the fetch's first
    offset are left out."""

    magic: int
    trim: bool
    is_batch: bool
    offset_delta: int = 0


@dataclass(frozen=True, slots=True)
class ScannedRecord:
    """A large record: its message with its absolute offset, and where it begins in the
    decompressed bytes."""

    message: LargeMessage
    offset: int
    position: int


def scan_inner(
    transcoder: Transcoder,
    request: Request,
    body: DecompressedBody,
    inner: InnerFormat,
    scratch: memoryview | None,
) -> Steps[ScannedRecord | None]:
    """Checks the whole record at the body's start, and reports it to the kernel as converted.
    Returns None if it is left out. Without `scratch`, only its size is determined."""
    position = body.base + body.start

    def damage(reason: str) -> Exception:
        return body.damage(reason, position - body.base)

    if inner.is_batch:
        window = body.buffer, body.start, body.filled, body.remaining
        offset, timestamp, size, message = yield from scan_record(
            transcoder, window, BodyCursor(body), inner.magic, scratch, damage
        )
    else:
        offset, timestamp, size, before_key = _entry_head(
            body, inner, transcoder.append_time, damage
        )
        log_append = transcoder.append_time is not None
        start = MessageStart(inner.magic, offset, timestamp, log_append)
        message = yield from scan_message(
            BodyCursor(body), size, before_key, start, scratch, damage
        )
        yield from body.skip_in_steps(position + size)
    kept = not inner.trim or offset >= request.first_offset
    if kept and not inner.is_batch and transcoder.last_offset >= offset:
        raise damage("offset does not increase")
    transcoder.record_converted(size, offset, timestamp, message.size if kept else 0)
    return ScannedRecord(message, offset, position) if kept else None


def _entry_head(
    body: DecompressedBody, inner: InnerFormat, append_time: int | None, damage: Damage
) -> tuple[int, int, int, int]:
    """Offset, timestamp, size and bytes before the key of the entry at the body's start."""
    offset, size = PREFIX.unpack_from(body.buffer, body.start)
    size += PREFIX.size
    magic = body.buffer[body.start + MAGIC_AT]
    if magic not in (V0, V1):
        raise damage("unknown magic")
    if body.buffer[body.start + ATTRIBUTES_AT_LEGACY] & CODEC_MASK:
        raise damage("compressed message inside a compressed message")
    if size < MESSAGE_OVERHEAD[magic]:
        raise damage("message is smaller than its header")
    head = MESSAGE_HEAD[magic]
    timestamp = head.unpack_from(body.buffer, body.start)[5] if magic == V1 else NO_TIMESTAMP
    if append_time is not None:
        timestamp = append_time
    if timestamp < NO_TIMESTAMP:
        raise damage("negative timestamp")
    return offset + inner.offset_delta, timestamp, size, head.size + SIZE_FIELD.size
