"""The names that Kafka gives to its own topics."""

from downconvert.broker.topics import INTERNAL_TOPICS
from downconvert.internal_topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC


def test_the_names_are_kafkas() -> None:
    """A log directory of Kafka has them, and old clients hide topics by these names."""
    assert OFFSETS_TOPIC == "__consumer_offsets"
    assert TRANSACTIONS_TOPIC == "__transaction_state"
    assert set(INTERNAL_TOPICS) == {OFFSETS_TOPIC, TRANSACTIONS_TOPIC}
