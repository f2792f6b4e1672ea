"""Shared checks of admin requests."""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import Final, TypeVar

from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import StorageError

TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# The maximum for a topic, because each partition takes descriptors and index files.
PARTITIONS_MAX: Final = 1000

Name = TypeVar("Name", str, bytes)


def check_writable(broker: BrokerState, code: ErrorCode) -> None:
    """Raises ApiError with this code if the broker is read-only."""
    if not broker.config.is_writable:
        raise ApiError(code, "this broker only reads")


def is_name(name: str) -> bool:
    """Whether a topic can have this name."""
    return name not in (".", "..") and TOPIC_NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raises ApiError if no topic can have this name."""
    if not is_name(name):
        reason = f"{name[:100]!r} cannot be the name of a topic"
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def check_count(count: int) -> None:
    """Raises ApiError if no topic can have so many partitions."""
    if not 1 <= count <= PARTITIONS_MAX:
        reason = f"{count} partitions: a topic has between 1 and {PARTITIONS_MAX}"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, reason)


def check_replicas(broker: BrokerState, assignments: Iterable[Iterable[int]]) -> None:
    """Raises ApiError if a replica is assigned to another broker. There is only this one."""
    alone = [broker.config.node_id]
    for number, brokers in enumerate(assignments):
        if list(brokers) != alone:
            reason = f"assignment {number} is to brokers {list(brokers)[:10]}, and there is {alone}"
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def topic_of(broker: BrokerState, name: str) -> Topic:
    """The topic. Raises ApiError if there is none."""
    topic = broker.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:249]}")
    return topic


def clients_own(broker: BrokerState, name: str) -> Topic:
    """A topic that clients may change. Raises ApiError if it is missing or internal."""
    topic = topic_of(broker, name)
    if topic.is_internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is the brokers' own")
    return topic


def each_once(topics: Iterable[tuple[Name, Iterable[int]]]) -> dict[Name, list[int]]:
    """The partitions of each topic in the order of the request, without repetitions. So a short
    request cannot cause a long response."""
    found: dict[Name, dict[int, None]] = {}
    for name, indices in topics:
        found.setdefault(name, {}).update(dict.fromkeys(indices))
    return {name: list(indices) for name, indices in found.items()}


def responses_for(
    topics: Iterable[Message],
    done: Callable[[Message], Message],
    refused: Callable[[Message, ApiError], Message],
) -> Generator[None, None, list[Message]]:
    """Returns the responses for the topics that a request names, and yields between two of them.
    Each is the result of `done`, or of `refused` for its error. A name that occurs more than once
    is refused once, because it is not clear which one counts."""
    topics = list(topics)
    counts = Counter(topic.name for topic in topics)
    refused_already: set[str] = set()
    responses: list[Message] = []
    for topic in topics:
        if topic.name in refused_already:
            continue
        if responses:
            yield
        try:
            if counts[topic.name] > 1:
                refused_already.add(topic.name)
                raise ApiError(ErrorCode.INVALID_REQUEST, "the name comes more than once")
            responses.append(done(topic))
        except (ApiError, OSError, StorageError) as error:
            responses.append(refused(topic, refusal(error)))
    return responses


def refusal(error: Exception) -> ApiError:
    """The error for a client. Errors other than ApiError come from the disk.

    It has no traceback. Otherwise a function that keeps it would be referred to by it, and the
    request would take memory until the next collection of garbage."""
    if isinstance(error, ApiError):
        return error.with_traceback(None)
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
