"""CreateTopics: topics with their partitions and configuration, on this broker.

Rules and error codes are those of Kafka's ReplicationControlManager. -1 is the broker's own number
of partitions, and one replica; assignments may name each partition's only replica: this broker."""

from typing import Final

from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topic_configs import check
from downconvert.broker.wire.schemas import Message
from downconvert.storage import StorageError

from .admin import check_count, check_name, check_replicas, check_writable, refusal, repeated
from .describe_configs import topic_configs

DEFAULT: Final = -1


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    twice = repeated(topic.name for topic in body.topics)
    refused_already: set[str] = set()
    answers: list[Message] = []
    for topic in body.topics:
        if topic.name in refused_already:
            continue
        try:
            if topic.name in twice:
                refused_already.add(topic.name)
                raise ApiError(ErrorCode.INVALID_REQUEST, "the name comes more than once")
            answers.append(_create(broker, topic, now, body.validate_only))
        except (ApiError, OSError, StorageError) as error:
            refused = refusal(error)
            answers.append(
                Message(
                    name=topic.name,
                    error_code=refused.code,
                    error_message=refused.message,
                    configs=[],
                )
            )
    exchange.reply(Message(topics=answers))


def _create(broker: BrokerState, topic: Message, now: float, validate_only: bool) -> Message:
    check_writable(broker, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    name = topic.name
    check_name(name)
    _check_free(broker, name)
    count = _partitions_count(broker, topic)
    config = check({one.name: one.value for one in topic.configs})
    if not validate_only:
        # There may have been one before, deleted just before a crash.
        broker.groups.forget_topics({name}, now)
    with broker.topics.lock:
        _check_free(broker, name)
        topic_id = bytes(16)
        if not validate_only:
            topic_id = broker.topics.create(name, count, config, int(now * 1000)).id
    return Message(
        name=name,
        topic_id=topic_id,
        num_partitions=count,
        replication_factor=1,
        error_message=None,
        configs=topic_configs(broker, config),
    )


def _check_free(broker: BrokerState, name: str) -> None:
    if name in broker.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    # In the names of Kafka's metrics the two characters are the same.
    for other in broker.topics:
        if other.replace(".", "_") == name.replace(".", "_"):
            said = f"Topic '{name}' collides with existing topic: {other}"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, said)


def _partitions_count(broker: BrokerState, topic: Message) -> int:
    if topic.assignments:
        if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
            said = "numbers of partitions and replicas, and assignments too"
            raise ApiError(ErrorCode.INVALID_REQUEST, said)
        indices = sorted(one.partition_index for one in topic.assignments)
        if indices != list(range(len(indices))):
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions are missing")
        check_replicas(broker, (one.broker_ids for one in topic.assignments))
        check_count(len(indices))
        return len(indices)
    if topic.replication_factor not in (DEFAULT, 1):
        said = f"{topic.replication_factor} replicas, and there is one broker"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, said)
    if topic.num_partitions == DEFAULT:
        return broker.config.num_partitions
    count: int = topic.num_partitions
    check_count(count)
    return count
