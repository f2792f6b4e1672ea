"""InitProducerId: an id for an idempotent producer.

Every such request gets a new one, as in Kafka, whatever id the producer had. Transactions are not
served: a producer that asks for them gets an authorization error, which ends it at once."""

from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.wire.schemas import Message
from downconvert.storage import StorageError

from .admin import check_writable, refusal

NONE = -1


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    try:
        check_writable(broker, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if exchange.request.body.transactional_id is not None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        producer_id = broker.producer_ids.take()
    except (ApiError, OSError, StorageError) as error:
        code = refusal(error).code
        exchange.reply(Message(error_code=code, producer_id=NONE, producer_epoch=NONE))
        return
    exchange.reply(Message(producer_id=producer_id, producer_epoch=0))
