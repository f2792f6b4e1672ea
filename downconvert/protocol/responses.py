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

from .encoder import Part, Parts, size_of, write
from .requests import RequestHeader
from .schemas import ApiKey, Message, is_flexible

LENGTH_SIZE: Final = 4  # bytes at the start of each frame
START: Final = Struct(">ii")  # of a response: its length, and the request's correlation id
NO_TAGS: Final = 0  # ends the header of a flexible response
INT32_MAX: Final = (1 << 31) - 1
MSG_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)  # if it exists
NAMES: Final = {api: f"{api.name}Response" for api in ApiKey}

# A response up to this size is copied and sent by one call. Two more system calls and their
# overhead cost more than the copy.
COPIED_SIZE_MAX: Final = 32 * KiB


class _Copied(threading.local):
    """Each thread's buffer, for a response while it is written."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(COPIED_SIZE_MAX))


COPIED: Final = _Copied()


class ResponseSend:
    """The bytes of one response, once. Not for two threads at a time."""

    __slots__ = ("_parts", "_pending", "records", "sent", "size")

    def __init__(self, parts: list[Part], size: int | None = None) -> None:
        """`size`: of all parts, if known."""
        # There are bytes between any two of them.
        self.records: list[Send] = parts[1::2]  # type: ignore[assignment]
        self.size = size_of(parts) if size is None else size
        self._parts = parts[::-1]  # those that are left; the next one is at the end
        self._pending: PendingBytes | None = None  # of the part of bytes that is being written
        self.sent = 0  # bytes written

    @property
    def remaining(self) -> int:
        """Bytes not yet written."""
        return self.size - self.sent

    @property
    def completed(self) -> bool:
        return self.sent == self.size

    def write_to(self, channel: Any, budget: int | None = None, *, more: bool = False) -> int:
        """Makes at most one write, or several with a budget. Returns the bytes written. 0: not
        now. `more`: another response follows at once, so the system may send both together.

        Raises RecordsError if records changed, or proved damaged, while they were sent. The
        promised bytes are then missing, and the connection must end. Errors of the channel pass
        through."""
        if not self.sent and self.size <= COPIED_SIZE_MAX and is_plain_socket(channel):
            written = self._write_copied(channel, MSG_MORE if more else 0)
            if written is not None:
                return written
        return write_all(partial(self._write_part, channel), budget)

    def _write_copied(self, channel: Any, flags: int) -> int | None:
        """Writes all parts at once. None: a part does not support this. Bytes that the channel does
        not take are not kept, since the parts still have them."""
        parts = self._parts
        data: bytearray | memoryview
        if len(parts) == 1:
            (data,) = parts  # type: ignore[assignment]  # the first part is bytes
        else:
            data, at = COPIED.buffer, 0
            for part in reversed(parts):
                if isinstance(part, bytearray):
                    size = len(part)
                    data[at : at + size] = part
                else:
                    size = part.size
                    copy = getattr(part, "copy_to", None)
                    if copy is None or not copy(data[at : at + size]):
                        return None
                at += size
            data = data[:at]
        try:
            written: int = channel.send(data, flags)
        except BlockingIOError:
            return 0
        self.sent = written
        for part in reversed(parts[:]):
            size = len(part) if isinstance(part, bytearray) else part.size
            if isinstance(part, bytearray):
                if size > written:
                    more = len(parts) > 1
                    self._pending = PendingBytes(memoryview(part)[written:], more=more)
                    parts.pop()
                    break
            else:
                part.skip(min(size, written))  # type: ignore[attr-defined]  # it has `copy_to`
                if size > written:
                    break
            parts.pop()
            written -= size
        return self.sent

    def _write_part(self, channel: Any, budget: int | None) -> int:
        while self._parts and (self._pending is None or not self._pending.left):
            part = self._parts[-1]
            if isinstance(part, bytearray):
                more = self.size - self.sent > len(part)
                self._pending = PendingBytes(memoryview(part), more=more)
            elif not part.completed:
                written = part.write_to(channel, budget)
                self.sent += written
                return written
            self._parts.pop()
        written = 0 if self._pending is None else self._pending.write_to(channel)
        self.sent += written
        return written

    def close(self) -> None:
        """Releases the resources of the unsent rest."""
        for part in self.records:
            close(part)


def throttled(
    request: RequestHeader, body: Message, seconds: float, version: int | None = None
) -> ResponseSend:
    """The same response with a throttle time, before any of it was sent. If its version has the
    field, it states how long its client is not read from [KIP-219], or a longer time set before."""
    body.throttle_time_ms = max(getattr(body, "throttle_time_ms", 0), milliseconds(seconds))
    return response(request, body, version)


def milliseconds(seconds: float) -> int:
    """A throttle time as in responses."""
    return min(round(seconds * 1000), INT32_MAX)


def response(request: RequestHeader, body: Message, version: int | None = None) -> ResponseSend:
    """The response to a request, in the request's version unless another is given."""
    version = request.version if version is None else version
    parts = Parts()
    first = parts.bytes
    first += START.pack(0, request.correlation_id)
    if _has_tags(request.api, version):
        first.append(NO_TAGS)
    write(parts, NAMES[request.api], version, body)
    size = len(first) if len(parts.parts) == 1 else size_of(parts.parts)
    START.pack_into(first, 0, size - LENGTH_SIZE, request.correlation_id)
    return ResponseSend(parts.parts, size)


def encoded_response(request: RequestHeader, body: bytes) -> ResponseSend:
    """The response with a body that is encoded already, in the request's version."""
    tags = bytes((NO_TAGS,)) if _has_tags(request.api, request.version) else b""
    size = START.size + len(tags) + len(body)
    start = START.pack(size - LENGTH_SIZE, request.correlation_id)
    return ResponseSend([bytearray(b"".join((start, tags, body)))], size)


@cache
def _has_tags(api: ApiKey, version: int) -> bool:
    """Whether a response's header has tagged fields. That of ApiVersions never has: a client must
    be able to read it before it knows any versions."""
    return api is not ApiKey.ApiVersions and is_flexible(api, version)
