"""DeleteTopics: by name, or by id from version 6 on. Groups forget their offsets in the topic."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
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
    exchange.work_on(_answer(broker, asked, now), now)


def _answer(
    broker: BrokerState, asked: Iterable[Message], now: float
) -> Generator[None, None, Message]:
    """Deletes one topic in each turn. Its groups forget it even if the client goes away first."""
    responses: list[Message] = []
    try:
        for one, problem in _checked(broker, asked):
            if responses:
                yield
            responses.append(_deleted(broker, one, problem))
    finally:
        gone = {response.name for response in responses if not response.error_code}
        if gone:
            broker.groups.forget_topics(gone, now)
            broker.groups.forget_dead_groups(now)
    return Message(responses=responses)


def _checked(broker: BrokerState, asked: Iterable[Message]) -> Iterator[tuple[Message, str]]:
    """Each topic to answer, and the reason for not deleting it. Empty: it may be deleted.

    A topic that occurs more than once is answered once. A topic that occurs by its name and by its
    id is answered by its name."""
    counts: Counter[str | bytes] = Counter()
    for one in asked:
        name, topic_id = one.name, bytes(one.topic_id)
        if name is not None and topic_id != NO_ID:
            yield one, "a topic by its name and its id"
        elif name is None and topic_id == NO_ID:
            yield one, "neither a topic's name nor its id"
        else:
            counts[topic_id if name is None else name] += 1
    answered = {name for name, count in counts.items() if count > 1}
    for name in answered:
        yield _topic(name), "the topic comes more than once"
    for name in [one for one in counts if one not in answered]:
        topic = broker.topics.get(name) if isinstance(name, str) else None
        if topic is not None and topic.id in counts:
            answered |= {name, topic.id}
            yield Message(name=name, topic_id=topic.id), "the topic comes by its id, too"
    for name in counts:
        if name not in answered:
            yield _topic(name), ""


def _topic(name: str | bytes) -> Message:
    return (
        Message(name=name, topic_id=NO_ID)
        if isinstance(name, str)
        else Message(name=None, topic_id=name)
    )


def _deleted(broker: BrokerState, asked: Message, problem: str) -> Message:
    response = Message(name=asked.name, topic_id=bytes(asked.topic_id), error_code=ErrorCode.NONE)
    try:
        check_writable(broker, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if problem:
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)
        with broker.topics.lock:
            topic = clients_own(broker, _name(broker, asked))
            response.name, response.topic_id = topic.name, topic.id
            broker.topics.delete(topic.name)
        for index in topic.partitions:
            broker.purgatory.notify(("partition", topic.name, index))
    except (ApiError, OSError, StorageError) as error:
        refused = refusal(error)
        response.error_code, response.error_message = refused.code, refused.message
    return response


def _name(broker: BrokerState, asked: Message) -> str:
    if asked.name is not None:
        return str(asked.name)
    topic = broker.topics.by_id(bytes(asked.topic_id))
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic.name
