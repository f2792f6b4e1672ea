"""EndTxn: a producer commits its transaction, or aborts it."""

from typing import Final

from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.transactions.coordinator import Producer
from downconvert.broker.wire.schemas import Message

from .transactional import check_coordinates, code_of

FENCED_VERSION: Final = 2  # the first that knows PRODUCER_FENCED


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    producer = Producer(body.transactional_id, body.producer_id, body.producer_epoch)
    code = ErrorCode.NONE
    try:
        check_coordinates(broker)
        broker.transactions.end(producer, now, commits=body.committed)
    except ApiError as error:
        code = code_of(error, knows_fenced=exchange.request.version >= FENCED_VERSION)
    exchange.reply(Message(error_code=code))
