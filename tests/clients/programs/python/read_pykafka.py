# mypy: ignore-errors
"""pykafka: SimpleConsumer, with and without a group's offsets; Producer."""

import uuid

from asked import run
from pykafka import KafkaClient
from pykafka.common import CompressionType, OffsetType

MiB = 1024 * 1024
CODECS = {
    "none": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
}


def client_of(asked):
    return KafkaClient(hosts=asked.bootstrap, broker_version=asked.pin)


def read(asked, reading):
    client = client_of(asked)  # which goes as soon as nobody has it
    topic = client.topics[reading.name]
    options = {}
    if asked.mode == "offsets":
        options = {"consumer_group": f"{asked.group}-{uuid.uuid4()}", "auto_commit_enable": True}
    consumer = topic.get_simple_consumer(
        auto_offset_reset=OffsetType.EARLIEST,
        consumer_timeout_ms=100,
        fetch_message_max_bytes=4 * MiB,
        **options,
    )
    try:
        while reading.goes_on:
            message = consumer.consume()
            while message is not None and reading.goes_on:
                reading.record(
                    message.partition_id, message.offset, message.partition_key, message.value
                )
                message = consumer.consume(block=False)
    finally:
        consumer.stop()


def send(asked, topic, pairs):
    client = client_of(asked)
    with client.topics[topic].get_producer(
        compression=CODECS[asked.codec],
        required_acks={"0": 0, "1": 1, "all": -1}[asked.acks],
        linger_ms=50,
        partitioner=lambda partitions, _: partitions[0],
    ) as producer:
        for key, value in pairs:
            producer.produce(value, partition_key=key)


run(read, send)
