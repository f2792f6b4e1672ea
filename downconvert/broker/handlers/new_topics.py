"""Creates a topic, for CreateTopics, and for Metadata if a topic is missing.

Not here: the files (topics.py), checking requests (create_topics.py, metadata.py)."""

from collections.abc import Mapping

from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic
from downconvert.protocol.errors import ApiError, ErrorCode


def check_free(broker: BrokerState, name: str) -> None:
    """Raises ApiError if a topic has this name, or a name that is the same in metrics."""
    others = broker.topics.like(name)
    if name in others:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if others:
        reason = f"Topic '{name}' collides with existing topic: {others[0]}"
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def make(
    broker: BrokerState, name: str, count: int, config: Mapping[str, str], now: float
) -> Topic:
    """Creates a topic with `count` partitions and its own configuration. `now` in seconds.

    Raises ApiError as `check_free` does. Raises OSError or StorageError for the disk. After an
    error there is no topic."""
    # A topic of this name may have been deleted just before a crash.
    broker.groups.forget_topics({name}, now)
    with broker.topics.lock:
        check_free(broker, name)
        return broker.topics.create(name, count, config, int(now * 1000))
