# mypy: ignore-errors
"""kafka-python 1.0 and above: KafkaConsumer and KafkaProducer."""

import uuid
from contextlib import suppress

from asked import run
from kafka import KafkaConsumer, KafkaProducer

try:
    from kafka import TopicPartition
except ImportError:
    from kafka.common import TopicPartition

MiB = 1024 * 1024


def version(pin):
    """None asks the broker; 1.x took strings, and knew names of its own."""
    if pin == "default":
        return {}
    parts = tuple(int(part) for part in pin.split("."))
    import kafka

    old = kafka.__version__.startswith("1.0")
    return {"api_version": pin if old else parts}


def read(asked, reading):
    options = dict(
        bootstrap_servers=asked.bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4 * MiB,
        **version(asked.pin),
    )
    if asked.mode == "group":
        group = f"{asked.group}-{uuid.uuid4()}"
        consumer = KafkaConsumer(reading.name, group_id=group, **options)
    else:
        consumer = KafkaConsumer(group_id=None, **options)
        consumer.assign([TopicPartition(reading.name, p) for p in range(reading.partitions)])
    try:
        while reading.goes_on:
            for records in consumer.poll(timeout_ms=100).values():
                for record in records:
                    reading.record(
                        record.partition,
                        record.offset,
                        record.key,
                        record.value,
                        getattr(record, "timestamp", None),
                        getattr(record, "timestamp_type", None),
                        getattr(record, "headers", None),
                    )
    finally:
        with suppress(AttributeError):  # 1.0, without a group
            consumer.close()


def send(asked, topic, pairs):
    acks = asked.acks if asked.acks == "all" else int(asked.acks)
    producer = KafkaProducer(
        bootstrap_servers=asked.bootstrap,
        acks=acks,
        compression_type=None if asked.codec == "none" else asked.codec,
        linger_ms=50,
        **version(asked.pin),
    )
    sent = [producer.send(topic, key=key, value=value, partition=0) for key, value in pairs]
    producer.flush()
    for future in sent:
        future.get(timeout=10)
    producer.close()


run(read, send)
