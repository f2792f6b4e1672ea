# mypy: ignore-errors
"""confluent-kafka's transactional producer: aborts, commits, and is fenced."""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

address = sys.argv[1]


def producer():
    made = Producer({"bootstrap.servers": address, "transactional.id": "copier"})
    made.init_transactions(60)
    return made


first = producer()
first.begin_transaction()
first.produce("target", b"dropped")
first.flush()
first.abort_transaction()
first.begin_transaction()
first.produce("target", b"kept")
consumer = Consumer({"bootstrap.servers": address, "group.id": "copies"})
first.send_offsets_to_transaction(
    [TopicPartition("source", 0, 5)], consumer.consumer_group_metadata()
)
first.commit_transaction()
consumer.close()
first.begin_transaction()
first.produce("target", b"fenced")
first.flush()
second = producer()
fenced = None
try:
    first.commit_transaction()
except KafkaException as error:
    fenced = error.args[0]
if fenced is None or not fenced.fatal():
    raise SystemExit(f"it was not fenced: {fenced}")
second.begin_transaction()
second.produce("target", b"last")
second.commit_transaction()
