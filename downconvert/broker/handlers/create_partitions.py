"""CreatePartitions: more partitions for a topic. There is no request for fewer."""

from collections.abc import Generator

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message

from .admin import check_count, check_replicas, check_writable, responses_for, topic_of


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    exchange.work_on(_answer(broker, exchange.request.body), now)


def _answer(broker: BrokerState, body: Message) -> Generator[None, None, Message]:
    def done(topic: Message) -> Message:
        _create(broker, topic, body.validate_only)
        return Message(name=topic.name)

    return Message(results=(yield from responses_for(body.topics, done, _refused)))


def _refused(topic: Message, error: ApiError) -> Message:
    return Message(name=topic.name, error_code=error.code, error_message=error.message)


def _create(broker: BrokerState, asked: Message, validate_only: bool) -> None:
    check_writable(broker, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with broker.topics.lock:
        topic = topic_of(broker, asked.name)
        there = max(topic.partitions) + 1  # partitions on other brokers' disks may be missing here
        if asked.count <= there:
            reason = f"{asked.count} partitions: the topic has {there} already"
            raise ApiError(ErrorCode.INVALID_PARTITIONS, reason)
        check_count(asked.count)
        if asked.assignments is not None:
            if len(asked.assignments) != asked.count - there:
                reason = (
                    f"{len(asked.assignments)} assignments for {asked.count - there} partitions"
                )
                raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
            check_replicas(broker, (one.broker_ids for one in asked.assignments))
        if validate_only:
            return
        broker.topics.add_partitions(topic.name, range(there, asked.count))
    if topic.name == OFFSETS_TOPIC:
        broker.groups.offsets_partitions_added(there)
