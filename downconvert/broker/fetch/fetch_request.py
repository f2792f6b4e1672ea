"""The fields of a fetch request for its handler. They are derived only once for repeated bytes.

They depend on the request's bytes alone. The server's limits and the client's rights are applied
later.

Not here: sessions (fetch_session.py), reading (fetch_reader.py)."""

from typing import Final

from downconvert.conversion.plan import SMALL_SIZE_MAX
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.fetch_versions import REPLICA_STATE_SINCE, SESSIONS_SINCE, magic_of
from downconvert.protocol.schemas import Message

from .fetch_session import FINAL, NO_SESSION, Sessionless, asked_in
from .session import Asked

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
# The maximum wait: no client waits longer for a response.
WAIT_MAX: Final = 60.0  # seconds


class FetchRequest:
    """The fields of a request. Requests with the same bytes share it: never change it.

    magic: the newest message format that the client reads; None: any. is_follower: whether a
    replica fetches. is_committed: whether the client reads only committed records. wait: seconds.
    context: the partitions of a request without a session. alone: its only partition, if a consumer
    without a session reads all records, and does not ask for more than is converted at once.

    Raises ApiError if the isolation level is unknown."""

    __slots__ = (
        "alone",
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

    def __init__(self, version: int, body: Message) -> None:
        self.version = version
        self.magic = magic_of(version)
        replica = body.replica_state if version >= REPLICA_STATE_SINCE else body
        self.replica_id: int = replica.replica_id
        self.is_follower = self.replica_id >= 0
        # In older versions without the field, the value is 0.
        check_isolation(body.isolation_level)
        self.is_committed = body.isolation_level == READ_COMMITTED
        self.max_bytes: int = body.max_bytes
        self.min_bytes: int = body.min_bytes
        self.wait = min(max(0.0, body.max_wait_ms / 1000), WAIT_MAX)
        self.context: Sessionless | None = None
        if version < SESSIONS_SINCE or (body.session_id, body.session_epoch) == (NO_SESSION, FINAL):
            self.context = Sessionless(list(asked_in(version, body.topics).values()))
        self.alone: Asked | None = None
        reads_all = not (self.is_follower or self.is_committed)
        if reads_all and self.context is not None and len(self.context.asked) == 1:
            (asked,) = self.context.asked
            is_small = min(asked.max_bytes, self.max_bytes) <= SMALL_SIZE_MAX
            self.alone = asked if is_small or self.magic is None else None

    def from_offset(self, offset: int) -> "FetchRequest":
        """The same request of one partition, from another offset."""
        same = FetchRequest.__new__(FetchRequest)
        same.version, same.magic, same.replica_id = self.version, self.magic, self.replica_id
        same.is_follower, same.is_committed = self.is_follower, self.is_committed
        same.max_bytes, same.min_bytes, same.wait = self.max_bytes, self.min_bytes, self.wait
        same.context = same.alone = None
        if self.context is not None:
            (asked,) = self.context.asked
            asked = Asked(
                asked.topic,
                asked.index,
                offset,
                asked.max_bytes,
                asked.leader_epoch,
                asked.last_epoch,
                asked.start_offset,
            )
            same.context = Sessionless([asked])
            same.alone = None if self.alone is None else asked
        return same


def check_isolation(level: int) -> None:
    """Raises ApiError for an unknown isolation level, because the client may expect a stricter
    one."""
    if level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"isolation level {level}")
