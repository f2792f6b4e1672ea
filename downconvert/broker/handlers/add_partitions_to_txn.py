"""AddPartitionsToTxn: a producer names the partitions that its transaction will write to.

Either all partitions of a request are added, or none. If one cannot be added, the others get
OPERATION_NOT_ATTEMPTED."""

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import INTERNAL_TOPICS
from downconvert.broker.transactions.coordinator import Producer
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import TopicPartition
from records.formats import V2

from .transactional import change


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    asked = [
        TopicPartition(topic.name, index)
        for topic in body.v3_and_below_topics
        for index in topic.partitions
    ]
    codes = {name: _check(broker, name) for name in asked}
    is_refused = any(codes.values())
    if is_refused:
        not_attempted = ErrorCode.OPERATION_NOT_ATTEMPTED
        codes = {name: code or not_attempted for name, code in codes.items()}
    else:
        code = _add(broker, exchange, set(asked), now)
        codes = dict.fromkeys(asked, code)
    results = [
        Message(
            name=topic.name,
            results_by_partition=[
                Message(
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            ],
        )
        for topic in body.v3_and_below_topics
        if topic.partitions or not is_refused  # as Kafka answers topics without partitions
    ]
    exchange.reply(Message(results_by_topic_v3_and_below=results))


def _add(
    broker: BrokerState, exchange: Exchange, names: set[TopicPartition], now: float
) -> ErrorCode:
    body = exchange.request.body
    producer = Producer(
        body.v3_and_below_transactional_id,
        body.v3_and_below_producer_id,
        body.v3_and_below_producer_epoch,
    )

    def add() -> ErrorCode:
        broker.transactions.add(producer, names, now)
        return ErrorCode.NONE

    return change(broker, exchange, add)


def _check(broker: BrokerState, name: TopicPartition) -> ErrorCode:
    """Whether a transaction can write there."""
    if name.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = broker.topics.get(name.topic)
    partition = None if topic is None else topic.partitions.get(name.partition)
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.leader != broker.config.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if topic.append_config.magic < V2:
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    return ErrorCode.NONE
