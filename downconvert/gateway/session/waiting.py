"""How long a request lets a broker wait before it answers.

A fetch waits for records, a group member for other members, an admin request for all brokers. This
time is added to the request timeout. A broker that sends nothing for longer counts as hung."""

from typing import Final

from downconvert.protocol.decoder import Cursor, decode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message, is_flexible

from .headers import Header

UNREAD: Final = 60.0  # seconds: assumed for requests whose timeout is not read
LONGEST: Final = 1800.0  # seconds: Kafka's group.max.session.timeout.ms
REPLICA_ID_UP_TO: Final = 14  # the newest Fetch that begins with a replica's id
FIRST_PRODUCE_WITH_ID: Final = 3  # the first Produce that begins with a transactional id
FIRST_JOIN_WITH_TWO: Final = 1  # the first JoinGroup with a time-out of its own for rebalances
FIELDS: Final = {
    ApiKey.Fetch: ("max_wait_ms",),
    ApiKey.JoinGroup: ("session_timeout_ms", "rebalance_timeout_ms"),
}
# APIs with a `timeout_ms`. Other APIs let the broker wait for no time.
TIMED: Final = frozenset(
    {
        ApiKey.CreateTopics,
        ApiKey.DeleteTopics,
        ApiKey.DeleteRecords,
        ApiKey.CreatePartitions,
        ApiKey.Produce,
    }
)


class Waits:
    """How long a broker may wait with each request of one client, in seconds."""

    __slots__ = ("_rebalance",)

    def __init__(self) -> None:
        self._rebalance = 0.0  # of the client's last JoinGroup, and so of its SyncGroup

    def of_body(self, api: ApiKey, body: Message) -> float:
        """The wait of a parsed request."""
        names = FIELDS.get(api, ("timeout_ms",) if api in TIMED else ())
        return self._noted(api, max((getattr(body, n, 0) or 0 for n in names), default=0))

    def of_frame(self, header: Header, frame: memoryview) -> float:
        """The wait of a forwarded request. Its beginning is enough."""
        if header.api is None:
            return UNREAD
        try:
            return self._noted(header.api, _milliseconds(header, header.api, frame))
        except BadRequestError:  # the field is not in the beginning, or the request is invalid
            return UNREAD

    def _noted(self, api: ApiKey, milliseconds: int) -> float:
        seconds = min(max(milliseconds, 0) / 1000, LONGEST)
        if api is ApiKey.JoinGroup:
            self._rebalance = seconds
        return self._rebalance if api is ApiKey.SyncGroup else seconds


def _milliseconds(header: Header, api: ApiKey, frame: memoryview) -> int:
    cursor = Cursor(frame, header.size)
    flexible = is_flexible(api, header.version)
    match api:
        case ApiKey.Fetch:
            if header.version <= REPLICA_ID_UP_TO:
                cursor.take(4)
            return _number(cursor, 4)
        case ApiKey.Produce:
            return timeout_of_produce(frame[header.size :], header.version)
        case ApiKey.JoinGroup:
            _skip_string(cursor, flexible=flexible)
            session = _number(cursor, 4)
            both = header.version >= FIRST_JOIN_WITH_TWO
            return max(session, _number(cursor, 4)) if both else session
        case _ if api in TIMED:
            body = decode(f"{api.name}Request", header.version, frame[header.size :])
            milliseconds: int = body.timeout_ms
            return milliseconds
    return 0


def timeout_of_produce(body: memoryview, version: int) -> int:
    """The timeout in milliseconds. BadRequestError: the body has none, or it has not arrived."""
    cursor = Cursor(body)
    if version >= FIRST_PRODUCE_WITH_ID:
        _skip_string(cursor, flexible=is_flexible(ApiKey.Produce, version))
    cursor.take(2)  # acks
    return _number(cursor, 4)


def _skip_string(cursor: Cursor, *, flexible: bool) -> None:
    length = cursor.uvarint() - 1 if flexible else _number(cursor, 2)
    cursor.take(max(length, 0))


def _number(cursor: Cursor, size: int) -> int:
    start = cursor.take(size)
    return int.from_bytes(cursor.data[start : start + size], signed=True)
