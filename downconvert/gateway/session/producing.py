"""Produce v0-v2: message sets of v0 and v1, sent to the cluster as v2 batches.

The records are validated and converted by the rules of a broker's up-conversion. The cluster
assigns the offsets. The gateway acknowledges a produce only after the cluster has."""

from collections.abc import Generator
from typing import Final

from downconvert.protocol.decoder import Cursor
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.append_config import AppendConfig
from downconvert.serving.appending import prepare
from records.formats import V2

from .exchanges import TURN, Ask, Turn

FIRST_WITH_V2, FIRST_FLEXIBLE = 3, 9
WITHOUT_ADDRESSES: Final = 9  # the newest version with responses that name no brokers
MESSAGE_SIZE_MAX: Final = 4 << 20  # bytes; the cluster applies its own limit, 1 MiB by default
ANY_TIME: Final = 1 << 62  # milliseconds: the cluster checks timestamps
TAKEN: Final = AppendConfig(
    magic=V2,
    codec=None,
    level="kafka",
    is_compacted=False,  # the cluster checks that there are keys
    is_append_time=False,
    message_size_max=MESSAGE_SIZE_MAX,
    before_max=ANY_TIME,
    after_max=ANY_TIME,
    min_insync_replicas=1,
)

# Errors that clients of these versions do not know, and their replacements: a retriable error if
# retrying helps, otherwise a fatal one.
OLD_CODES: Final = {
    ErrorCode.INVALID_RECORD: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_TIMESTAMP: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.POLICY_VIOLATION: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def acks(frame: memoryview, position: int, version: int) -> int:
    """The acks of a request. Its body begins at `position`. The rest need not have arrived."""
    cursor = Cursor(frame, position)
    if version >= FIRST_FLEXIBLE:
        cursor.take(max(cursor.uvarint() - 1, 0))  # the transactional id
    elif version >= FIRST_WITH_V2:
        start = cursor.take(2)
        cursor.take(max(int.from_bytes(frame[start : start + 2], signed=True), 0))
    start = cursor.take(2)
    return int.from_bytes(frame[start : start + 2], signed=True)


def produce(
    body: Message, served: range, now: float
) -> Generator[Ask | Turn, Message, Message | None]:
    """The client's response. None: acks are 0, and some records were refused.

    `served`: the cluster's versions; `now`: seconds since the epoch."""
    responses: dict[tuple[str, int], Message] = {}
    sent: set[tuple[str, int]] = set()
    topics: list[Message] = []
    for topic in body.topic_data:
        partitions = []
        for one in topic.partition_data:
            key = topic.name, one.index
            answer = responses[key] = Message(index=one.index, base_offset=-1, error_code=0)
            sent.discard(key)
            yield TURN
            try:
                prepared = prepare(one.records or memoryview(b""), TAKEN, int(now * 1000))
            except ApiError as error:
                answer.error_code = OLD_CODES.get(error.code, error.code)
                continue
            if prepared is not None:
                partitions.append(Message(index=one.index, records=prepared.data))
                sent.add(key)
                if body.acks:  # replaced by the cluster's response
                    answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        if partitions:
            topics.append(Message(name=topic.name, partition_data=partitions))
    throttle = 0
    if topics:
        request = Message(acks=body.acks, timeout_ms=body.timeout_ms, topic_data=topics)
        version = max(min(WITHOUT_ADDRESSES, served.stop - 1), served.start, FIRST_WITH_V2)
        response = yield Ask(ApiKey.Produce, version, request)
        throttle = response.throttle_time_ms if body.acks else 0
        for topic in response.responses if body.acks else ():
            for one in topic.partition_responses:
                one.error_code = OLD_CODES.get(one.error_code, one.error_code)
                if (topic.name, one.index) in sent:
                    responses[topic.name, one.index] = one
    if body.acks == 0 and any(one.error_code for one in responses.values()):
        return None
    return Message(throttle_time_ms=throttle, responses=_responses(body, responses))


def _responses(body: Message, responses: dict[tuple[str, int], Message]) -> list[Message]:
    return [
        Message(
            name=topic.name,
            partition_responses=[responses[topic.name, one.index] for one in topic.partition_data],
        )
        for topic in body.topic_data
    ]
