"""The data for the tools: a topic with records, and a group that has read some of them.

A current client writes and checks them, because it uses the same requests on every target."""

from contextlib import suppress
from typing import Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from tests import kafka_wire

TOPIC: Final = "judged"
GROUP: Final = "judges"
RECORDS: Final = 1000
READ: Final = 400  # by the group


def write(bootstrap: str) -> None:
    """Writes RECORDS records to the topic's one partition, and the group's offset."""
    make(bootstrap, TOPIC)
    produce(bootstrap)
    # With a member, because tools before 2.0 do not list a group that only has offsets.
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    while not consumer.assignment():
        consumer.poll(1000)
    consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(READ, "", -1)})
    consumer.close()


def produce(bootstrap: str) -> None:
    """Writes RECORDS records to an existing topic."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(RECORDS):
        producer.send(TOPIC, b"record-%d" % number)
    producer.flush()
    producer.close()


def make(bootstrap: str, topic: str) -> None:
    """Creates a topic with one partition."""
    kafka_wire.create_topic(int(bootstrap.rpartition(":")[2]), topic, 1, 1, {})


def remove(bootstrap: str, topic: str) -> None:
    """Removes a topic, if it exists."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    with suppress(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])
    admin.close()


def written(bootstrap: str, topic: str) -> int:
    """The number of offsets in use in the topic."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        end: int = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        return end
    finally:
        consumer.close()
