# mypy: ignore-errors
"""confluent-kafka: librdkafka's consumer and producer."""

import sys
import uuid

from asked import run
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition


def version(pin):
    if pin == "default":
        return {}
    return {"api.version.request": False, "broker.version.fallback": pin}


def read(asked, reading):
    errors = []
    consumer = Consumer(
        {
            "bootstrap.servers": asked.bootstrap,
            "group.id": f"{asked.group}-{uuid.uuid4()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": asked.mode == "group",
            "fetch.message.max.bytes": 4 * 1024 * 1024,
            "isolation.level": "read_uncommitted",
            "fetch.wait.max.ms": 100,
            "error_cb": errors.append,
            **version(asked.pin),
        }
    )
    if asked.mode == "group":
        consumer.subscribe([reading.name])
    else:
        partitions = range(reading.partitions)
        consumer.assign([TopicPartition(reading.name, p, OFFSET_BEGINNING) for p in partitions])
    try:
        while reading.goes_on:
            for message in consumer.consume(1000, 0.1):
                if message.error():
                    raise RuntimeError(str(message.error()))
                kind, timestamp = message.timestamp()
                headers = message.headers()
                reading.record(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    timestamp if kind else None,
                    kind - 1 if kind else None,
                    headers,
                )
    finally:
        for error in errors:
            print(error, file=sys.stderr)
        consumer.close()


def send(asked, topic, pairs):
    failed = []
    producer = Producer(
        {
            "bootstrap.servers": asked.bootstrap,
            "acks": asked.acks,
            "compression.type": asked.codec,
            "linger.ms": 50,
            **version(asked.pin),
        }
    )
    for key, value in pairs:
        producer.produce(
            topic,
            key=key,
            value=value,
            partition=0,
            on_delivery=lambda error, _: error and failed.append(error),
        )
    left = producer.flush(15)
    assert (left, failed) == (0, [])


run(read, send)
