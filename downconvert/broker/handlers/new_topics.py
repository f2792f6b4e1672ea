"""Creates a topic, for CreateTopics and for Metadata, which creates missing topics.

Not here: the files (topics.py), checking requests (create_topics.py, metadata.py)."""

from collections.abc import Mapping

from downconvert.broker.state import BrokerState
from downconvert.broker.topics import Topic
from downconvert.protocol.errors import ApiError, ErrorCode


def check_free(broker: BrokerState, name: str) -> None:
    """Raises ApiError if there is a topic of this name, or of one that metrics cannot tell from
    it."""
    if name in broker.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    # In the names of Kafka's metrics the two characters are the same.
    plain = name.replace(".", "_")
    for other in broker.topics if "_" in plain else ():
        if other.replace(".", "_") == plain:
            reason = f"Topic '{name}' collides with existing topic: {other}"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def make(
    broker: BrokerState, name: str, count: int, config: Mapping[str, str], now: float
) -> Topic:
    """Creates a topic with so many partitions, and its own configuration. `now` in seconds.

    Raises ApiError like `check_free`. Raises OSError or StorageError for the disk. There is no
    topic then."""
    # A topic of this name may have been deleted just before a crash.
    broker.groups.forget_topics({name}, now)
    with broker.topics.lock:
        check_free(broker, name)
        return broker.topics.create(name, count, config, int(now * 1000))
