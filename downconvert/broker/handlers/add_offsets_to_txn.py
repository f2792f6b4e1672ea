"""AddOffsetsToTxn: a producer names the group for which its transaction will commit offsets. The
group's partition of `__consumer_offsets` takes part in the transaction."""

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.broker.transactions.coordinator import Producer
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import TopicPartition

from .transactional import change


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    producer = Producer(body.transactional_id, body.producer_id, body.producer_epoch)

    def add() -> ErrorCode:
        code, index = broker.groups.ensure_partition(body.group_id, now)
        if not code:
            broker.transactions.add(producer, {TopicPartition(OFFSETS_TOPIC, index)}, now)
        return code

    exchange.reply(Message(error_code=change(broker, exchange, add)))
