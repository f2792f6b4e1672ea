"""The replica ids in the requests of three APIs.

A consumer's id is negative. Any other id is that of a broker, and its fetch offset means that it
has all records below. Leaders rely on that to acknowledge records. So an id is accepted only from a
client that is known to be that broker.

Not here: fetches of followers (fetch_reader.py)."""

from struct import Struct
from typing import Final

from downconvert.protocol.decoder import Cursor, decode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.fetch_versions import REPLICA_STATE_SINCE
from downconvert.protocol.schemas import ApiKey, Message

from .names import RULES
from .operations import Kind

CONSUMER: Final = -1
DEBUG_CONSUMER: Final = -2  # the id of tools; in OffsetForLeaderEpoch it means "unknown"
FUTURE_REPLICA: Final = -3  # a replica that moves to another disk of its broker
CONSUMERS: Final = frozenset({CONSUMER, DEBUG_CONSUMER})
# The first versions with a replica id.
SINCE: Final = {ApiKey.Fetch: 0, ApiKey.ListOffsets: 0, ApiKey.OffsetForLeaderEpoch: 3}

REPLICA_ID: Final = Struct(">i")  # the first field of a body, except in later fetches
# The first fields of a fetch since REPLICA_STATE_SINCE. There the id is in a tagged field at the
# end:
FETCH_START: Final = Struct(">iiibii")  # two limits and a time, isolation level, session
PARTITION_SIZE: Final = 33  # bytes of a fetched partition without tagged fields
TOPIC_ID_SIZE: Final = 16
INDEX_SIZE: Final = 4  # of a forgotten partition


def is_last(api: ApiKey, version: int) -> bool:
    """Whether the id is at the end of a request, and not at the beginning."""
    return api is ApiKey.Fetch and version >= REPLICA_STATE_SINCE


def of_body(api: ApiKey, version: int, body: Message) -> int:
    """The replica id of a request, or a consumer's if it has none."""
    if version < SINCE.get(api, version + 1):
        return CONSUMER
    has_state = version >= REPLICA_STATE_SINCE and is_last(api, version)
    return int((body.replica_state if has_state else body).replica_id)


def of_frame(api: ApiKey, version: int, body: memoryview) -> int:
    """As `of_body`, from bytes that are not decoded. Reads no more than needed.

    BadRequestError: the bytes are no request, or incomplete."""
    if version < SINCE.get(api, version + 1):
        return CONSUMER
    if not is_last(api, version):
        (replica_id,) = REPLICA_ID.unpack_from(body, Cursor(body).take(REPLICA_ID.size))
        return int(replica_id)
    if not _has_tags(Cursor(body)):
        return CONSUMER
    return of_body(api, version, decode(f"{api.name}Request", version, body))


def refusal(api: ApiKey, body: Message) -> Message:
    """The response to a client that is not the broker of its id: Kafka's error for each
    partition."""
    names = RULES[api].names
    assert names is not None
    answered = [names.refusal(one, Kind.TOPIC.value) for one in getattr(body, names.request)]
    return Message(error_code=Kind.CLUSTER.value, **{names.response: answered})


def _has_tags(cursor: Cursor) -> bool:
    """Whether a fetch has a tagged field anywhere. Most fetches have none, and so no replica id."""
    data = cursor.data
    cursor.take(FETCH_START.size)
    for _ in range(_count(cursor)):
        cursor.take(TOPIC_ID_SIZE)
        size = PARTITION_SIZE * _count(cursor)
        start = cursor.take(size)
        if any(data[start + PARTITION_SIZE - 1 : start + size : PARTITION_SIZE]):
            return True
        if cursor.uvarint():
            return True
    for _ in range(_count(cursor)):  # the partitions that the session forgets
        cursor.take(TOPIC_ID_SIZE)
        cursor.take(INDEX_SIZE * _count(cursor))
        if cursor.uvarint():
            return True
    cursor.take(_count(cursor))  # the rack's name
    return bool(cursor.uvarint())


def _count(cursor: Cursor) -> int:
    """A compact length that is not null."""
    count = cursor.uvarint() - 1
    if count < 0:
        raise BadRequestError(f"a length of {count} before {cursor.position}")
    return count
