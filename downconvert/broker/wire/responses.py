"""A response on its way out: its frame's length, its header, and its parts.

The length is known before anything is sent, because every send knows its size. One call of
`write_to` makes one write, so that an event loop stays fair between connections."""

from functools import partial
from typing import Any

from records.sends import PendingBytes, close, write_all

from .encoder import Part, Parts, size_of, write
from .requests import RequestHeader
from .schemas import ApiKey, Message, is_flexible

LENGTH_SIZE = 4  # bytes: what frames begin with
INT32_MAX = (1 << 31) - 1
NAMES = {api: f"{api.name}Response" for api in ApiKey}


class ResponseSend:
    """The bytes of one response, once. Not for two threads at a time."""

    __slots__ = ("_parts", "_pending", "_sent", "records", "size")

    def __init__(self, parts: list[Part]) -> None:
        self.records = [part for part in parts if not isinstance(part, bytearray)]
        self.size = size_of(parts)
        self._parts = parts[::-1]  # those that are left, the next one last
        self._pending = PendingBytes()  # of the part of bytes that is being written
        self._sent = 0

    @property
    def remaining(self) -> int:
        """Bytes that have not been written."""
        return self.size - self._sent

    @property
    def completed(self) -> bool:
        return self._sent == self.size

    def write_to(self, channel: Any, budget: int | None = None) -> int:
        """Makes at most one write, or with a budget several, and returns the bytes written; 0: not
        now.

        RecordsError: records changed, or turned out to be damaged, while they were sent: what has
        been promised cannot be kept, and the connection must end. And what the channel raises."""
        return write_all(partial(self._write_part, channel), budget)

    def _write_part(self, channel: Any, budget: int | None) -> int:
        while not self._pending.left and self._parts:
            part = self._parts[-1]
            if isinstance(part, bytearray):
                more = self.size - self._sent > len(part)
                self._pending = PendingBytes(memoryview(part), more=more)
            elif not part.completed:
                written = part.write_to(channel, budget)
                self._sent += written
                return written
            self._parts.pop()
        pending = self._pending
        written = pending.write_to(channel)
        self._sent += written
        return written

    def close(self) -> None:
        """Releases what is held for the rest, which is not wanted any more."""
        for part in self.records:
            close(part)


def throttled(
    request: RequestHeader, body: Message, seconds: float, version: int | None = None
) -> ResponseSend:
    """The response once more, before anything of it was sent: it says, where its version can, that
    its client is not read from for so long [KIP-219], or for longer where it said so already."""
    body.throttle_time_ms = max(getattr(body, "throttle_time_ms", 0), milliseconds(seconds))
    return response(request, body, version)


def milliseconds(seconds: float) -> int:
    """A throttle time as answers have it."""
    return min(round(seconds * 1000), INT32_MAX)


def response(request: RequestHeader, body: Message, version: int | None = None) -> ResponseSend:
    """The response to a request, in the request's version unless another is given."""
    version = request.version if version is None else version
    parts = Parts()
    # A client must be able to read the answer before it knows any versions: that of ApiVersions
    # never has the flexible header.
    flexible = request.api is not ApiKey.ApiVersions and is_flexible(request.api, version)
    header = Message(correlation_id=request.correlation_id)
    parts.bytes += bytes(LENGTH_SIZE)
    write(parts, "ResponseHeader", int(flexible), header)
    write(parts, NAMES[request.api], version, body)
    first = parts.parts[0]
    assert isinstance(first, bytearray)
    first[:LENGTH_SIZE] = (size_of(parts.parts) - LENGTH_SIZE).to_bytes(LENGTH_SIZE)
    return ResponseSend(parts.parts)
