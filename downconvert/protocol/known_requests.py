"""Requests that came before: a poll is the same request again, but for its correlation id.

What a frame says depends on its bytes alone. So the same bytes are parsed once, whoever sends them.
What their client may do is looked at each time.

Not here: parsing (requests.py)."""

from struct import Struct
from typing import Final

from .requests import Request, RequestHeader
from .schemas import ApiKey

CORRELATION_ID: Final = Struct(">i")
CORRELATION_ID_AT: Final = 4  # after the API and its version
REST_AT: Final = CORRELATION_ID_AT + CORRELATION_ID.size
FRAME_SIZE_MAX: Final = 512  # bytes; parsed, that is some KiB
COUNT_MAX: Final = 256
# What clients send again and again, and whose handlers change nothing in the request.
POLLED: Final = frozenset(
    {
        ApiKey.ApiVersions,
        ApiKey.Fetch,
        ApiKey.FindCoordinator,
        ApiKey.Heartbeat,
        ApiKey.ListOffsets,
        ApiKey.Metadata,
        ApiKey.OffsetFetch,
    }
)


class KnownRequests:
    """The last of them, by their bytes. Any thread may call. Nobody changes a known body."""

    def __init__(self) -> None:
        self._known: dict[bytes, Request] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, frame: memoryview) -> Request | None:
        """The request of a frame whose bytes came before, with its own correlation id."""
        if not REST_AT <= len(frame) <= FRAME_SIZE_MAX:
            return None
        known = self._known.get(_key(frame))
        if known is None:
            return None
        (correlation_id,) = CORRELATION_ID.unpack_from(frame, CORRELATION_ID_AT)
        was = known.header
        header = RequestHeader(was.api, was.version, correlation_id, was.client_id, was.size)
        return Request(header, known.body, known.size)

    def keep(self, frame: memoryview, request: Request) -> None:
        """Knows it from now on, if it is one that is sent again. Nothing in it may refer to a
        buffer that is used again."""
        if request.api not in POLLED or len(frame) > FRAME_SIZE_MAX:
            return
        if len(self._known) >= COUNT_MAX:
            self._known = {}
        self._known[_key(frame)] = request


def _key(frame: memoryview) -> bytes:
    """All but the correlation id."""
    return frame[:CORRELATION_ID_AT].tobytes() + frame[REST_AT:].tobytes()
