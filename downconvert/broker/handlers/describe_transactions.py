"""DescribeTransactions: the state of some transactional ids."""

from collections.abc import Iterable

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import TopicPartition


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    asked = exchange.request.body.transactional_ids
    states = [_describe(broker, name) for name in dict.fromkeys(asked)]
    exchange.reply(Message(transaction_states=states))


def _describe(broker: BrokerState, transactional_id: str) -> Message:
    if not transactional_id:
        return _none(transactional_id, ErrorCode.INVALID_REQUEST)
    if not broker.config.is_writable:  # only the directory's own broker knows
        return _none(transactional_id, ErrorCode.NOT_COORDINATOR)
    one = broker.transactions.get(transactional_id)
    if one is None:
        return _none(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return Message(
        transactional_id=transactional_id,
        transaction_state=one.state.title,
        transaction_timeout_ms=one.timeout_ms,
        transaction_start_time_ms=one.start_time,
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        topics=_topics(one.partitions),
    )


def _none(transactional_id: str, code: ErrorCode) -> Message:
    return Message(error_code=code, transactional_id=transactional_id, topics=[])


def _topics(names: Iterable[TopicPartition]) -> list[Message]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(names):
        topics.setdefault(topic, []).append(index)
    return [Message(topic=topic, partitions=indices) for topic, indices in topics.items()]
