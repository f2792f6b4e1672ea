"""InitProducerId: an id and an epoch for an idempotent producer, or a transactional one.

Without a transactional id, each request gets a new producer id, as in Kafka, regardless of the
producer's earlier id. A transactional id keeps its producer id and gets the next epoch, which
fences the earlier producer."""

from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import StorageError

from .admin import check_writable
from .transactional import code_of

NONE: Final = -1
FENCED_VERSION: Final = 4  # the first version with PRODUCER_FENCED


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    try:
        producer_id, epoch = _begin(broker, exchange.request.body, now)
    except (ApiError, OSError, StorageError) as error:
        code = code_of(error, knows_fenced=exchange.request.version >= FENCED_VERSION)
        exchange.reply(Message(error_code=code, producer_id=NONE, producer_epoch=NONE))
        return
    exchange.reply(Message(producer_id=producer_id, producer_epoch=epoch))


def _begin(broker: BrokerState, body: Message, now: float) -> tuple[int, int]:
    check_writable(broker, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (body.producer_id == NONE) != (body.producer_epoch == NONE):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id without an epoch")
    if body.transactional_id is None:
        return broker.transactions.new_producer_id(), 0
    refusal = broker.transactions.refusal()
    if refusal is not None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, refusal)
    expected = None if body.producer_id == NONE else (body.producer_id, body.producer_epoch)
    name, timeout_ms = body.transactional_id, body.transaction_timeout_ms
    return broker.transactions.begin_producer(name, timeout_ms, expected, now)
