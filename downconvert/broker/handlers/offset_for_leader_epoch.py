"""OffsetForLeaderEpoch: the end of a leader epoch in a log.

A follower, or a consumer that read from another leader, uses it to find where its records diverge
from this log [KIP-101, KIP-279, KIP-320].

Not here: the epochs (leader_epochs.py)."""

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    topics = [
        Message(
            topic=topic.topic,
            partitions=[_answer(broker, topic.topic, asked) for asked in topic.partitions],
        )
        for topic in exchange.request.body.topics
    ]
    exchange.reply(Message(topics=topics))


def _answer(broker: BrokerState, topic: str, asked: Message) -> Message:
    result = Message(partition=asked.partition)
    partition = broker.topics.partition(topic, asked.partition)
    try:
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check(asked.current_leader_epoch, leader=True)
        end = partition.end_of_epoch(asked.leader_epoch)
        result.leader_epoch, result.end_offset = end.epoch, end.end_offset
    except ApiError as error:
        result.error_code = error.code
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result
