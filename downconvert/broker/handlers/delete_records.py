"""DeleteRecords: deletes all records before an offset. -1 is the high watermark.

Whole segments are removed. Deleted records in the first remaining segment are hidden until that
segment is removed."""

from collections.abc import Generator
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topic_settings import SETTINGS
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import StorageError

from .admin import check_writable, clients_own, refusal

HIGH_WATERMARK: Final = -1
NO_OFFSET: Final = -1


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    exchange.work_on(_answer(broker, exchange.request.body), now)


def _answer(broker: BrokerState, body: Message) -> Generator[None, None, Message]:
    """Deletes in one partition in each turn, because files are removed."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in body.topics:
        for asked in topic.partitions:  # for a repeated partition, the last offset counts
            offsets.setdefault(topic.name, {})[asked.partition_index] = asked.offset
    topics: list[Message] = []
    for name, partitions in offsets.items():
        responses: list[Message] = []
        for index, offset in partitions.items():
            if topics or responses:
                yield
            response = Message(partition_index=index, low_watermark=NO_OFFSET)
            try:
                response.low_watermark = _delete(broker, name, index, offset)
            except (ApiError, OSError, StorageError) as error:
                response.error_code = refusal(error).code
            responses.append(response)
        topics.append(Message(name=name, partitions=responses))
    return Message(topics=topics)


def _delete(broker: BrokerState, topic: str, index: int, offset: int) -> int:
    """Deletes, and returns the log's new start offset."""
    check_writable(broker, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = broker.topics.partition(topic, index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    found = clients_own(broker, topic)
    partition.check(-1, leader=True)
    policy = found.config.get("cleanup.policy", SETTINGS["cleanup.policy"].default)
    if "delete" not in policy:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "the topic is only compacted")
    with partition.lock:
        before = partition.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= before <= partition.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return partition.log.writer.delete_records(before)
