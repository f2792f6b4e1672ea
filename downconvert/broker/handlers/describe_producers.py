"""DescribeProducers: the idempotent and transactional producers in a partition's log, and where
their open transactions begin. This finds hanging transactions."""

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import StorageError

from .admin import each_once, is_name, refusal


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    asked = each_once((one.name, one.partition_indexes) for one in exchange.request.body.topics)
    topics = [
        Message(name=name, partitions=[_describe(broker, name, index) for index in indices])
        for name, indices in asked.items()
    ]
    exchange.reply(Message(topics=topics))


def _describe(broker: BrokerState, topic: str, index: int) -> Message:
    partition = broker.topics.partition(topic, index)
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not is_name(topic):
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return Message(partition_index=index, error_code=code)
    try:
        partition.check(-1, leader=True)
        states = partition.producers()
    except (ApiError, OSError, StorageError) as error:
        refused = refusal(error)
        return Message(
            partition_index=index, error_code=refused.code, error_message=refused.message
        )
    producers = [
        Message(
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.transaction_start,
        )
        for state in states
    ]
    return Message(partition_index=index, active_producers=producers)
