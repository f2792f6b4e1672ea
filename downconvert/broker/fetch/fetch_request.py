"""The fields of a fetch request for its handler. They are derived only once for repeated bytes.

They depend on the request's bytes alone. The server's limits and the client's rights are applied
later.

Not here: sessions (fetch_session.py), reading (fetch_reader.py)."""

from typing import Final

from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.fetch_versions import REPLICA_STATE_SINCE, SESSIONS_SINCE, magic_of
from downconvert.protocol.schemas import Message

from .fetch_session import FINAL, NO_SESSION, Sessionless, asked_in

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
# The maximum wait: no client waits longer for a response.
WAIT_MAX: Final = 60.0  # seconds


class FetchRequest:
    """The fields of a request. Requests with the same bytes share it: never change it.

    magic: the newest message format that the client reads; None: any. is_follower: whether a
    replica fetches. is_committed: whether the client reads only committed records. wait: seconds.
    context: the partitions of a request without a session."""

    __slots__ = (
        "context",
        "is_committed",
        "is_follower",
        "magic",
        "max_bytes",
        "min_bytes",
        "replica_id",
        "version",
        "wait",
    )

    def __init__(
        self,
        version: int,
        replica_id: int,
        isolation_level: int,
        max_bytes: int,
        min_bytes: int,
        max_wait_ms: int,
        context: Sessionless | None,
    ) -> None:
        self.version = version
        self.magic = magic_of(version)
        self.replica_id = replica_id
        self.is_follower = replica_id >= 0
        self.is_committed = isolation_level == READ_COMMITTED
        self.max_bytes = max_bytes
        self.min_bytes = min_bytes
        self.wait = min(max(0.0, max_wait_ms / 1000), WAIT_MAX)
        self.context = context


def request_of(version: int, body: Message) -> FetchRequest:
    """The request with this body. Raises ApiError if the isolation level is unknown."""
    replica = body.replica_state if version >= REPLICA_STATE_SINCE else body
    # In older versions without the field, the level is 0.
    check_isolation(body.isolation_level)
    context = None
    if version < SESSIONS_SINCE or (body.session_id, body.session_epoch) == (NO_SESSION, FINAL):
        context = Sessionless(list(asked_in(version, body.topics).values()))
    limits = body.max_bytes, body.min_bytes, body.max_wait_ms
    return FetchRequest(version, replica.replica_id, body.isolation_level, *limits, context)


def check_isolation(level: int) -> None:
    """Raises ApiError for an unknown isolation level, because the client may expect a stricter
    one."""
    if level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"isolation level {level}")
