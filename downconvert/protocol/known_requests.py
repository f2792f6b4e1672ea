"""Remembers parsed requests: a poll repeats the same request with another correlation id.

A frame's meaning depends on its bytes alone. So equal bytes are parsed once for all clients.
Permissions are checked each time.

Not here: parsing (requests.py), and fetches of one partition (broker/handlers/fast_fetch.py)."""

from struct import Struct
from typing import Final

from .requests import Request
from .schemas import ApiKey

CORRELATION_ID: Final = Struct(">i")
CORRELATION_ID_AT: Final = 4  # after the API and its version
REST_AT: Final = CORRELATION_ID_AT + CORRELATION_ID.size
FRAME_SIZE_MAX: Final = 512  # bytes. A parsed request takes some KiB
COUNT_MAX: Final = 256
# Requests that clients repeat, and whose handlers do not change them.
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
# A frame begins with two bytes for its API. The first of them is 0 for all APIs that exist. Others
# are refused before they are kept.
API_AT: Final = 1
POLLED_NUMBERS: Final = frozenset(map(int, POLLED))
assert max(POLLED_NUMBERS) < 256
# The bytes at `API_AT` of frames that are looked for before they are parsed. Most fetches take the
# fast path, which parses them each time.
BEFORE_PARSING: Final = frozenset(api.to_bytes() for api in POLLED - {ApiKey.Fetch})


class KnownRequests:
    """The most recent requests, by their bytes. Thread-safe. A known body is never changed."""

    def __init__(self) -> None:
        self._known: dict[bytes, Request] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, frame: memoryview) -> tuple[bytes | None, Request | None]:
        """A frame's key, which is all but its correlation id, and the earlier request with the same
        key. The key is None for a large request, and for one that clients do not repeat."""
        if not REST_AT <= len(frame) <= FRAME_SIZE_MAX:
            return None, None
        if frame[API_AT] not in POLLED_NUMBERS:
            return None, None
        key = frame[:CORRELATION_ID_AT].tobytes() + frame[REST_AT:]
        return key, self._known.get(key)

    def keep(self, key: bytes, request: Request) -> None:
        """Remembers a request, unless it belongs to a fetch session: each of these has another
        epoch. It must not refer to a buffer that is reused."""
        if request.api is ApiKey.Fetch and request.body.session_id:
            return
        if len(self._known) >= COUNT_MAX:
            self._known = {}
        self._known[key] = request
