"""CreatePartitions: more partitions for a topic. There is no request for fewer."""

from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.wire.schemas import Message
from downconvert.storage import StorageError

from .admin import changeable, check_count, check_replicas, check_writable, refusal, repeated


def handle(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    body = exchange.request.body
    twice = repeated(topic.name for topic in body.topics)
    refused_already: set[str] = set()
    answers: list[Message] = []
    for topic in body.topics:
        if topic.name in refused_already:
            continue
        answer = Message(name=topic.name)
        try:
            if topic.name in twice:
                refused_already.add(topic.name)
                raise ApiError(ErrorCode.INVALID_REQUEST, "the name comes more than once")
            _create(broker, topic, body.validate_only)
        except (ApiError, OSError, StorageError) as error:
            refused = refusal(error)
            answer.error_code, answer.error_message = refused.code, refused.message
        answers.append(answer)
    exchange.reply(Message(results=answers))


def _create(broker: BrokerState, asked: Message, validate_only: bool) -> None:
    check_writable(broker, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with broker.topics.lock:
        topic = changeable(broker, asked.name)
        there = max(topic.partitions) + 1  # others may be missing, on the disk of another broker
        if asked.count <= there:
            said = f"{asked.count} partitions: the topic has {there} already"
            raise ApiError(ErrorCode.INVALID_PARTITIONS, said)
        check_count(asked.count)
        if asked.assignments is not None:
            if len(asked.assignments) != asked.count - there:
                said = f"{len(asked.assignments)} assignments for {asked.count - there} partitions"
                raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, said)
            check_replicas(broker, (one.broker_ids for one in asked.assignments))
        if not validate_only:
            broker.topics.add_partitions(topic.name, range(there, asked.count))
