"""CreateTopics: topics with their partitions and configuration, on this broker.

Rules and error codes are those of Kafka's ReplicationControlManager. -1 means the broker's default
number of partitions, and one replica. Assignments may name only this broker as a replica."""

from collections import Counter
from collections.abc import Generator
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topic_settings import check
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message

from .admin import check_count, check_name, check_replicas, check_writable, responses_for
from .describe_configs import Made, topic_configs
from .new_topics import check_free, make

DEFAULT: Final = -1
PARTITIONS_AT_ONCE: Final = 10_000  # in one request, as in Kafka
CONFIGS_SINCE: Final = 5  # the first version whose response has the settings
CLUSTER_METADATA: Final = "__cluster_metadata"  # a log of that name is Kafka's own metadata


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    request = exchange.request
    exchange.work_on(_answer(broker, request.body, request.version, now), now)


def _answer(
    broker: BrokerState, body: Message, version: int, now: float
) -> Generator[None, None, Message]:
    made: Made = {}

    def done(topic: Message) -> Message:
        response = _create(broker, topic, now, body.validate_only)
        if version >= CONFIGS_SINCE:
            given = {one.name: one.value for one in topic.configs}
            response.configs = topic_configs(broker, given, made)
        return response

    if _partitions_in(broker, body.topics) > PARTITIONS_AT_ONCE:
        reason = "Excessively large number of partitions per request."
        error = ApiError(ErrorCode.POLICY_VIOLATION, reason)
        return Message(topics=[_refused(topic, error) for topic in body.topics])
    return Message(topics=(yield from responses_for(body.topics, done, _refused)))


def _partitions_in(broker: BrokerState, topics: list[Message]) -> int:
    """The partitions that a request would create, valid or not. Topics that occur more than once
    are not created, and not counted."""
    counts = Counter(topic.name for topic in topics)
    asked = (
        len(topic.assignments) or _count(broker, topic)
        for topic in topics
        if counts[topic.name] == 1
    )
    return sum(count for count in asked if count > 0)


def _count(broker: BrokerState, topic: Message) -> int:
    """The number of partitions of a topic without assignments."""
    count: int = topic.num_partitions
    return broker.config.num_partitions if count == DEFAULT else count


def _refused(topic: Message, error: ApiError) -> Message:
    return Message(name=topic.name, error_code=error.code, error_message=error.message, configs=[])


def _create(broker: BrokerState, topic: Message, now: float, validate_only: bool) -> Message:
    check_writable(broker, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    name = topic.name
    check_name(name)
    if name == CLUSTER_METADATA:
        reason = f"Creation of internal topic {name} is prohibited."
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)
    check_free(broker, name)
    given = {one.name: one.value for one in topic.configs}  # of several values the last one counts
    given |= {one.name: None for one in topic.configs if one.value is None}  # None is refused later
    config = check(given)
    count = _partitions_count(broker, topic)
    topic_id = bytes(16)
    if not validate_only:
        topic_id = make(broker, name, count, config, now).id
    return Message(
        name=name,
        topic_id=topic_id,
        num_partitions=count,
        replication_factor=1,
        error_message=None,
    )


def _partitions_count(broker: BrokerState, topic: Message) -> int:
    if topic.assignments:
        if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
            reason = "assignments say how many: num_partitions and replication_factor must be -1"
            raise ApiError(ErrorCode.INVALID_REQUEST, reason)
        indices = sorted(one.partition_index for one in topic.assignments)
        if indices != list(range(len(indices))):
            reason = "assignments must be for partitions 0, 1, 2 and so on, each of them once"
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        check_replicas(broker, (one.broker_ids for one in topic.assignments))
        check_count(len(indices))
        return len(indices)
    if topic.replication_factor < 1:
        _check_replication(topic.replication_factor)
    count = _count(broker, topic)
    check_count(count)
    _check_replication(topic.replication_factor)
    return count


def _check_replication(factor: int) -> None:
    if factor not in (DEFAULT, 1):
        reason = f"replication factor {factor}: there is one broker"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
