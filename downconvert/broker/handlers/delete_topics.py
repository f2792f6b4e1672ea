"""DeleteTopics: by name, and from version 6 on by id, too. Groups forget their offsets in it."""

from collections import Counter
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import StorageError

from .admin import check_writable, clients_own, refusal

IDS_VERSION: Final = 6
NO_ID: Final = bytes(16)


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    asked = body.topics
    if exchange.request.version < IDS_VERSION:
        asked = [Message(name=name, topic_id=NO_ID) for name in body.topic_names]
    named = [(_topic_of(broker, one), one) for one in asked]
    counts = Counter(topic for topic, _ in named)
    firsts = dict(reversed(named))
    answers = [
        _deleted(broker, firsts[topic], is_twice=count > 1) for topic, count in counts.items()
    ]
    gone = {answer.name for answer in answers if not answer.error_code}
    if gone:
        broker.groups.forget_topics(gone, now)
        broker.groups.forget_groups_that_are_over(now)
    exchange.reply(Message(responses=answers))


def _topic_of(broker: BrokerState, asked: Message) -> str | bytes:
    """What is asked for, whether by its name or its id; an id that no topic has is itself."""
    if asked.name is not None:
        return str(asked.name)
    topic = broker.topics.by_id(bytes(asked.topic_id))
    return bytes(asked.topic_id) if topic is None else topic.name


def _deleted(broker: BrokerState, asked: Message, *, is_twice: bool) -> Message:
    answer = Message(name=asked.name, topic_id=bytes(asked.topic_id), error_code=ErrorCode.NONE)
    try:
        check_writable(broker, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if is_twice:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the topic comes more than once")
        with broker.topics.lock:
            topic = clients_own(broker, _name(broker, asked))
            answer.name, answer.topic_id = topic.name, topic.id
            broker.topics.delete(topic.name)
        for index in topic.partitions:
            broker.purgatory.notify(("partition", topic.name, index))
    except (ApiError, OSError, StorageError) as error:
        refused = refusal(error)
        answer.error_code, answer.error_message = refused.code, refused.message
    return answer


def _name(broker: BrokerState, asked: Message) -> str:
    if asked.name is not None and bytes(asked.topic_id) != NO_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a topic by its name and its id")
    if asked.name is not None:
        return str(asked.name)
    if bytes(asked.topic_id) == NO_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "neither a topic's name nor its id")
    topic = broker.topics.by_id(bytes(asked.topic_id))
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic.name
