"""EndTxn: a producer commits its transaction, or aborts it."""

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.transactions.coordinator import Producer
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message

from .transactional import change


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    producer = Producer(body.transactional_id, body.producer_id, body.producer_epoch)

    def end() -> ErrorCode:
        broker.transactions.end(producer, now, commits=body.committed)
        return ErrorCode.NONE

    exchange.reply(Message(error_code=change(broker, exchange, end)))
