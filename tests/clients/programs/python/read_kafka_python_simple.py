# mypy: ignore-errors
"""kafka-python 0.9: SimpleConsumer and SimpleProducer, without groups."""

from asked import run
from kafka import KafkaClient, SimpleConsumer
from kafka.common import ProduceRequest
from kafka.protocol import (
    CODEC_GZIP,
    CODEC_NONE,
    CODEC_SNAPPY,
    create_message,
    create_message_set,
)

MiB = 1024 * 1024
CODECS = {"none": CODEC_NONE, "gzip": CODEC_GZIP, "snappy": CODEC_SNAPPY}


def read(asked, reading):
    client = KafkaClient(asked.bootstrap)
    consumer = SimpleConsumer(
        client,
        None,
        reading.name,
        auto_commit=False,
        auto_offset_reset="smallest",
        fetch_size_bytes=4 * MiB,
        buffer_size=4 * MiB,
        max_buffer_size=None,
        iter_timeout=0.1,
    )
    consumer.provide_partition_info()
    consumer.seek(0, 0)
    while reading.goes_on:
        for partition, message in consumer.get_messages(count=100, block=True, timeout=0.1):
            reading.record(partition, message.offset, message.message.key, message.message.value)
    client.close()


def send(asked, topic, pairs):
    client = KafkaClient(asked.bootstrap)
    client.ensure_topic_exists(topic)
    if asked.codec == "none":
        messages = [create_message(value, key) for key, value in pairs]
    else:
        sent = [(value, key) for key, value in pairs]
        messages = create_message_set(sent, CODECS[asked.codec])
    acks = {"0": 0, "1": 1, "all": -1}[asked.acks]
    request = ProduceRequest(topic.encode(), 0, messages)
    responses = client.send_produce_request([request], acks=acks, timeout=5000)
    assert acks == 0 or [response.error for response in responses] == [0], responses
    client.close()


run(read, send)
