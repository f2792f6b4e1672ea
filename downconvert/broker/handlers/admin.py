"""What the requests of administrators have in common: who may, which names are names.

Not here: the requests (a file each)."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from downconvert.broker.errors import ApiError, ErrorCode
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic

TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Each takes descriptors and index files; an operator who needs more makes more topics.
PARTITIONS_MAX: Final = 1000


def check_writable(broker: BrokerState, code: ErrorCode) -> None:
    """ApiError with this code, where nothing may be changed."""
    if not broker.config.is_writable:
        raise ApiError(code, "this broker only reads")


def check_name(name: str) -> None:
    """Whether a topic may be called so."""
    if name in (".", "..") or not TOPIC_NAME.fullmatch(name):
        said = f"{name[:100]!r} cannot be the name of a topic"
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, said)


def check_count(count: int) -> None:
    """Whether a topic may have so many partitions."""
    if not 1 <= count <= PARTITIONS_MAX:
        said = f"{count} partitions: a topic has between 1 and {PARTITIONS_MAX}"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, said)


def check_replicas(broker: BrokerState, assignments: Iterable[Iterable[int]]) -> None:
    """Whether replicas are assigned to brokers that there are. This broker makes logs for itself
    only."""
    for brokers in assignments:
        if list(brokers) != [broker.config.node_id]:
            said = f"replicas on {list(brokers)[:10]}: there is broker {broker.config.node_id}"
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, said)


def topic_of(broker: BrokerState, name: str) -> Topic:
    """ApiError: there is none."""
    topic = broker.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:249]}")
    return topic


def changeable(broker: BrokerState, name: str) -> Topic:
    """A topic that clients may change. ApiError: it is none, or the brokers' own."""
    topic = topic_of(broker, name)
    if topic.is_internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is the brokers' own")
    return topic


def repeated(names: Iterable[str]) -> set[str]:
    """Names that come more than once: then nobody knows which of them counts."""
    return {name for name, count in Counter(names).items() if count > 1}


def refusal(error: Exception) -> ApiError:
    """What a client hears of an error: of the disk where it is no other."""
    if isinstance(error, ApiError):
        return error
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
