"""Kinds of requests that are forwarded unchanged. A few bytes identify the kind.

A connection's requests are mostly of two or three kinds: same API, version and client. The session
decides how to handle the first request of a kind, and all later ones are handled alike. Only a few
fields are read from each.

Not here: deciding that a request passes (session.py), forwarding it (passing.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from struct import Struct
from typing import Final, TypeAlias

from downconvert.access import replica_ids
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey
from downconvert.serving.series import NAME_MAX

from . import producing
from .census import ClientKey
from .headers import Header
from .versions import AUTHENTICATION
from .waiting import FIELDS, LONGEST, REPLICA_ID_UP_TO, TIMED, UNREAD, timeout_of_produce

KINDS_MAX: Final = 8  # of one connection
KIND: Final = slice(0, 4)  # of a frame: API and version
CORRELATION_END: Final = 8
START_OF_FETCH: Final = Struct(">ii")  # up to REPLICA_ID_UP_TO: replica id, longest wait in ms
WAIT: Final = Struct(">i")
# The end of a fetch of a later version that continues a session unchanged. Without a tagged field
# it has no replica id.
NO_CHANGE: Final = bytes.fromhex("01 01 01 00")

# Reads from a request's body how many seconds the broker may wait. None: the session must examine
# the request.
ReadWait: TypeAlias = Callable[[memoryview], float | None]


@dataclass(frozen=True, slots=True)
class PassedKind:
    """One kind. rest: the header after the correlation id. api: the API's name, for metrics. name:
    API and version, for log lines. client: the row of the census. client_id: for log lines."""

    rest: bytes
    read_wait: ReadWait
    api: str
    name: str
    client: ClientKey
    client_id: str


class PassedKinds(dict[bytes, PassedKind]):
    """The kinds of one connection, by the first four bytes of their frames."""

    __slots__ = ()

    def remember(
        self, header: Header, frame: memoryview, api: str, client: ClientKey, client_id: str
    ) -> None:
        """Adds the kind of a request that has passed. The decision must be valid for all requests
        of the kind."""
        read_wait = _reader_of_wait(header.api, header.version)
        rest = bytes(frame[CORRELATION_END : header.size])
        if read_wait is None or len(rest) > NAME_MAX:
            return
        if len(self) >= KINDS_MAX:
            self.clear()
        self[bytes(frame[KIND])] = PassedKind(rest, read_wait, api, header.name, client, client_id)


@cache
def _reader_of_wait(api: ApiKey | None, version: int) -> ReadWait | None:
    """Returns the function that reads a body. None: the session must examine each request of the
    kind."""
    match api:
        case None:
            return lambda _: UNREAD
        case ApiKey.Fetch if version <= REPLICA_ID_UP_TO:
            return _early_fetch
        case ApiKey.Fetch:
            return partial(_late_fetch, version)
        case ApiKey.Produce:
            return partial(_produce, version)
        case _ if api in replica_ids.SINCE:
            return partial(_with_replica_id, api, version)
        case _ if api in FIELDS or api in TIMED or api in AUTHENTICATION:
            return None
        case ApiKey.SyncGroup:  # its wait depends on the preceding JoinGroup
            return None
    return lambda _: 0.0


def _early_fetch(body: memoryview) -> float | None:
    if len(body) < START_OF_FETCH.size:
        return None
    replica_id, wait = START_OF_FETCH.unpack_from(body)
    return _seconds(wait) if replica_id in replica_ids.CONSUMERS else None


def _late_fetch(version: int, body: memoryview) -> float | None:
    start = replica_ids.FETCH_START.size
    if body[start:] != NO_CHANGE and not _is_consumer(ApiKey.Fetch, version, body):
        return None
    return _seconds(WAIT.unpack_from(body)[0])


def _with_replica_id(api: ApiKey, version: int, body: memoryview) -> float | None:
    return 0.0 if _is_consumer(api, version, body) else None


def _is_consumer(api: ApiKey, version: int, body: memoryview) -> bool:
    try:
        return replica_ids.of_frame(api, version, body) in replica_ids.CONSUMERS
    except BadRequestError:
        return False


def _produce(version: int, body: memoryview) -> float | None:
    try:
        if producing.acks(body, 0, version) == 0:  # it has no response
            return None
        return _seconds(timeout_of_produce(body, version))
    except BadRequestError:
        return None


def _seconds(milliseconds: int) -> float:
    return min(max(milliseconds, 0) / 1000, LONGEST)
