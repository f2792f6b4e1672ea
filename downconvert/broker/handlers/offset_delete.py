"""OffsetDelete: forgets a group's offsets in some partitions, except topics that it reads now."""

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    asked = [
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in body.topics
    ]
    known = [
        (name, index)
        for name, indices in asked
        for index in indices
        if broker.topics.partition(name, index) is not None
    ]
    code, codes = broker.groups.delete_offsets(body.group_id, known, now)
    if code:
        exchange.reply(Message(error_code=code))
        return
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        Message(
            name=name,
            partitions=[
                Message(partition_index=index, error_code=codes.get((name, index), unknown))
                for index in indices
            ],
        )
        for name, indices in asked
    ]
    exchange.reply(Message(topics=topics))
