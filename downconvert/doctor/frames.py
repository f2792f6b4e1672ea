"""Requests from the bytes that a client sends on one connection.

Only the head of a request is kept, however large the request is. The rest is skipped, even if it
was not captured. After lost bytes, the next request is searched for: it must be at the beginning of
a segment, and look like a request.

Not here: the order of bytes (streams.py)."""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from records.units import MiB

from .evidence import Problems
from .releases import API_VERSIONS, NAMES, SASL_HANDSHAKE, VERSION_MAX

_PREFIX: Final = Struct(">ihhi")  # size, API, version, correlation id
_LENGTH: Final = Struct(">h")  # of the client id, -1 for null
HEAD: Final = 768  # bytes of a request that are kept: client id, and ApiVersions' two strings
SIZE_MIN: Final = _PREFIX.size - 4
SIZE_MAX: Final = 100 * MiB  # bytes: socket.request.max.bytes, by default
TLS: Final = b"\x16\x03"  # the beginning of a TLS handshake; as a request's size it means 369 MB
CLIENT_IDS_MAX: Final = 16  # of a connection; a client has one
SOFTWARE_SINCE: Final = 3  # the first version of ApiVersions with the client's software


class RequestHead(NamedTuple):
    """A request's header, and the software of the connection's client if known."""

    api: int
    version: int
    client_id: str
    software: tuple[str, str]


class Frames:
    """One direction of a connection: takes bytes in order, yields requests."""

    __slots__ = ("_client_ids", "_head", "_is_raw", "_left", "_software", "is_synced", "problems")

    def __init__(self, problems: Problems, *, is_new: bool) -> None:
        """`is_new`: the first bytes are the connection's first."""
        self.problems = problems
        self.is_synced = is_new
        self._head = bytearray()
        self._left = 0  # remaining bytes of the request whose head has been read
        self._software = ("", "")
        self._client_ids = set[str]()  # from the connection's requests
        self._is_raw = False  # SASL tokens are sent without headers [SaslHandshake v0]

    def feed(self, data: bytes) -> Iterator[RequestHead]:
        """The next bytes: all captured bytes of a segment, or the new part of it."""
        if not self.is_synced:
            if not _is_request(data, self._client_ids):
                return
            self.is_synced = True
        position = 0
        while position < len(data):
            if self._left:
                passed = min(self._left, len(data) - position)
                self._left -= passed
                position += passed
                continue
            wanted = self._wanted()
            taken = data[position : position + wanted - len(self._head)]
            self._head += taken
            position += len(taken)
            if len(self._head) < self._wanted():
                continue  # the size is known now, or the data ends
            yield from self._request()
            if not self.is_synced:
                return

    def lose(self, count: int) -> None:
        """Notes that `count` bytes are missing."""
        if not self.is_synced:
            return
        if self._head or count > self._left:
            self.problems.add("requests that were not captured whole")
            self._unsync()
        else:
            self._left -= count

    def _wanted(self) -> int:
        """Bytes of the head: 4 until the size is known."""
        if len(self._head) < 4:
            return 4
        size = int.from_bytes(self._head[:4], "big", signed=True)
        return 4 + min(size, HEAD) if 0 <= size <= SIZE_MAX else 4

    def _request(self) -> Iterator[RequestHead]:
        head = bytes(self._head)
        self._head.clear()
        size = int.from_bytes(head[:4], "big", signed=True)
        if head.startswith(TLS):
            self.problems.add("connections with TLS, which a capture does not show")
            self._unsync()
        elif not (0 if self._is_raw else SIZE_MIN) <= size <= SIZE_MAX:
            self._reject()
        else:
            self._left = size + 4 - len(head)
            request = self._parsed(head)
            if request is not None:
                if len(self._client_ids) < CLIENT_IDS_MAX:
                    self._client_ids.add(request.client_id)
                self._is_raw = request.api == SASL_HANDSHAKE and request.version == 0
                yield request
            elif not self._is_raw:
                self._reject()

    def _parsed(self, head: bytes) -> RequestHead | None:
        name = _client_id(head)
        if name is None:
            return None
        client_id, body = name
        _, api, version, _ = _PREFIX.unpack_from(head)
        if api == API_VERSIONS and version >= SOFTWARE_SINCE:
            self._software = _software(head, body) or self._software
        return RequestHead(api, version, client_id, self._software)

    def _reject(self) -> None:
        self.problems.add("bytes that are no request")
        self._unsync()

    def _unsync(self) -> None:
        self.is_synced = False
        self._is_raw = False
        self._left = 0
        self._head.clear()


def _is_request(data: bytes, client_ids: set[str]) -> bool:
    """Whether a segment begins like a request, with enough bytes to decide.

    Records may look like a request. So the client id must be one that the connection has used. If
    none is known, it must have at least one character."""
    if len(data) < _PREFIX.size + _LENGTH.size or data.startswith(TLS):
        return False
    size = int.from_bytes(data[:4], "big", signed=True)
    if not SIZE_MIN <= size <= SIZE_MAX:
        return False
    found = _client_id(data[: min(4 + size, 4 + HEAD)])
    if found is None:
        return False
    name = found[0]
    if client_ids:
        return name in client_ids
    return bool(name) and name.isprintable() and "\N{REPLACEMENT CHARACTER}" not in name


def _client_id(head: bytes) -> tuple[str, int] | None:
    """A request's client id, and its end. None if this is not a request."""
    if len(head) < _PREFIX.size + _LENGTH.size:
        # Requests between brokers had headers without client ids (ControlledShutdown v0).
        return None
    _, api, version, _ = _PREFIX.unpack_from(head)
    (length,) = _LENGTH.unpack_from(head, _PREFIX.size)
    if api not in NAMES or not 0 <= version <= VERSION_MAX or length < -1:
        return None
    start = _PREFIX.size + _LENGTH.size
    end = start + max(0, length)
    if end > len(head) and len(head) < 4 + HEAD:
        return None  # the client id would be longer than the request
    return head[start:end].decode("utf-8", "replace"), end


def _software(head: bytes, position: int) -> tuple[str, str] | None:
    """Name and version from an ApiVersions request. None if they cannot be read."""
    if position >= len(head) or head[position]:  # no client sends tagged fields in the header
        return None
    position += 1
    parts = []
    for _ in range(2):
        # A compact string: its length and 1, which is one byte below 127.
        if position >= len(head) or not 0 < head[position] < 0x80:
            return None
        end = position + head[position]
        if end > len(head):
            return None
        parts.append(head[position + 1 : end].decode("utf-8", "replace"))
        position = end
    return parts[0], parts[1]
