"""A response while it is sent: its frame's length, its header, and its parts.

The length is known before anything is sent, because every send knows its size. One call of
`write_to` makes one write, so that an event loop stays fair between connections."""

import socket
import threading
from functools import cache, partial
from struct import Struct
from typing import Any, Final

from records.files.channel import is_plain_socket
from records.files.sends import PendingBytes, Send, close, write_all
from records.units import KiB

from .encoder import Part, Parts, writer
from .requests import RequestHeader
from .schemas import ApiKey, Message, is_flexible

LENGTH_SIZE: Final = 4  # bytes at the start of each frame
START: Final = Struct(">ii")  # of a response: its length, and the request's correlation id
START_WITHOUT_TAGS: Final = Struct(">iix")  # of a flexible response: 0 means no tagged fields
INT32_MAX: Final = (1 << 31) - 1
MSG_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)  # if it exists
NAMES: Final = {api: f"{api.name}Response" for api in ApiKey}

# A response up to this size is copied, and sent by one system call. The copy costs less than two
# more calls.
COPIED_SIZE_MAX: Final = 32 * KiB


class _Copied(threading.local):
    """Each thread's buffer, for a response while it is written."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(COPIED_SIZE_MAX))


COPIED: Final = _Copied()


class ResponseSend:
    """The bytes of one response, once. Not for two threads at a time."""

    __slots__ = ("_next", "_pending", "parts", "records", "sent", "size")

    def __init__(self, parts: list[Part], size: int | None = None) -> None:
        """`size`: of all parts, if known."""
        # Bytes and sends, in turn.
        self.parts = parts
        self.records: list[Send] = parts[1::2]  # type: ignore[assignment]
        self.size = sum(map(_size, parts)) if size is None else size
        self._next = 0  # the first part that is not completed
        self._pending: PendingBytes | None = None  # the rest of the bytes part in progress
        self.sent = 0  # bytes written

    @property
    def remaining(self) -> int:
        """Bytes not yet written."""
        return self.size - self.sent

    @property
    def in_memory(self) -> int:
        """Bytes that it holds: all except records."""
        return self.size - sum(send.size for send in self.records)

    @property
    def completed(self) -> bool:
        return self.sent == self.size

    def write_to(self, channel: Any, budget: int | None = None, *, more: bool = False) -> int:
        """Makes at most one write, or several with a budget. Returns the bytes written. 0: not
        now. `more`: another response follows at once, so the system may send both together.

        Raises RecordsError if records changed, or proved damaged, while they were sent. The
        promised bytes are then missing, and the connection must end. Errors of the channel pass
        through."""
        if self.size <= COPIED_SIZE_MAX and not self.sent and is_plain_socket(channel):
            data: Any = self._copied() if self.records else self.parts[0]
            if data is not None:
                try:
                    self.sent = channel.send(data, MSG_MORE if more else 0)
                except BlockingIOError:
                    return 0
                if self.sent == self.size:
                    self._next = len(self.parts)
                    for send in self.records:
                        send.skip(send.size)  # type: ignore[attr-defined]  # it has `copy_to`
                else:
                    self._skip(self.sent)
                return self.sent
        return write_all(partial(self._write_part, channel), budget)

    def take_whole(self) -> bytearray | None:
        """Returns the whole response, which then counts as sent. None if it has records, or if
        sending has begun."""
        if self.records or self.sent or self._pending is not None:
            return None
        self.sent, self._next = self.size, len(self.parts)
        whole = self.parts[0]
        assert isinstance(whole, bytearray)
        return whole

    def _copied(self) -> memoryview | None:
        """Copies all parts to this thread's buffer. Returns None if a part does not support this.
        The parts keep their bytes, because the channel may not take all."""
        buffer, at = COPIED.buffer, 0
        for part in self.parts:
            if isinstance(part, bytearray):
                end = at + len(part)
                buffer[at:end] = part
            else:
                end = at + part.size
                copy = getattr(part, "copy_to", None)
                if copy is None or not copy(buffer[at:end]):
                    return None
            at = end
        return buffer[:at]

    def _skip(self, written: int) -> None:
        """Skips the first `written` bytes, but not all, which were written from a copy."""
        for part in self.parts:
            size = _size(part)
            if isinstance(part, bytearray):
                if size > written:
                    more = self._next + 1 < len(self.parts)
                    self._pending = PendingBytes(memoryview(part)[written:], more=more)
                    self._next += 1
                    return
            else:
                part.skip(min(size, written))  # type: ignore[attr-defined]
                if size > written:
                    return
            self._next += 1
            written -= size

    def _write_part(self, channel: Any, budget: int | None) -> int:
        parts = self.parts
        while self._next < len(parts) and (self._pending is None or not self._pending.left):
            part = parts[self._next]
            if isinstance(part, bytearray):
                more = self.size - self.sent > len(part)
                self._pending = PendingBytes(memoryview(part), more=more)
            elif not part.completed:
                written = part.write_to(channel, budget)
                self.sent += written
                return written
            self._next += 1
        written = 0 if self._pending is None else self._pending.write_to(channel)
        self.sent += written
        return written

    def close(self) -> None:
        """Releases the resources of unsent parts."""
        for part in self.records:
            close(part)


def throttled(
    request: RequestHeader,
    body: Message,
    seconds: float,
    version: int | None = None,
    *,
    correlation_id: int | None = None,
) -> ResponseSend:
    """The same response with a throttle time. Nothing of it may have been sent. The field, if the
    version has one, states how long the client is muted [KIP-219]. A longer time that was set
    before stays."""
    body.throttle_time_ms = max(getattr(body, "throttle_time_ms", 0), milliseconds(seconds))
    return response(request, body, version, correlation_id=correlation_id)


def milliseconds(seconds: float) -> int:
    """A throttle time as in responses."""
    return min(round(seconds * 1000), INT32_MAX)


def response(
    request: RequestHeader,
    body: Message,
    version: int | None = None,
    *,
    correlation_id: int | None = None,
) -> ResponseSend:
    """The response to a request, in the request's version unless another is given.
    `correlation_id`: of the request, if `request` is an earlier one with the same bytes."""
    api, version = request.api, request.version if version is None else version
    correlation_id = request.correlation_id if correlation_id is None else correlation_id
    start, parts = _start(api, version), Parts()
    first = parts.bytes
    first += start.pack(0, correlation_id)
    writer(NAMES[api], version)(parts, body)
    size = parts.before + len(parts.bytes)
    start.pack_into(first, 0, size - LENGTH_SIZE, correlation_id)
    return ResponseSend(parts.parts, size)


def encoded_response(
    request: RequestHeader, body: bytes, *, correlation_id: int | None = None
) -> ResponseSend:
    """As `response`, in the request's version, with an encoded body."""
    correlation_id = request.correlation_id if correlation_id is None else correlation_id
    start = _start(request.api, request.version)
    size = start.size + len(body)
    whole = bytearray(start.pack(size - LENGTH_SIZE, correlation_id) + body)
    return ResponseSend([whole], size)


@cache
def _start(api: ApiKey, version: int) -> Struct:
    """The start of a response. For ApiVersions it never has tagged fields, because clients must
    read it before they know any versions."""
    has_tags = api is not ApiKey.ApiVersions and is_flexible(api, version)
    return START_WITHOUT_TAGS if has_tags else START


def _size(part: Part) -> int:
    return len(part) if isinstance(part, bytearray) else part.size
