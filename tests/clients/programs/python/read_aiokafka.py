# mypy: ignore-errors
"""aiokafka: AIOKafkaConsumer and AIOKafkaProducer."""

import asyncio
import logging
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from asked import arguments, produce_all, read_all

MiB = 1024 * 1024


def version(pin):
    return {} if pin in ("auto", "default") else {"api_version": pin}


async def read(asked, reading):
    options = dict(
        bootstrap_servers=asked.bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4 * MiB,
        **version(asked.pin),
    )
    if asked.mode == "group":
        group = f"{asked.group}-{uuid.uuid4()}"
        consumer = AIOKafkaConsumer(reading.name, group_id=group, **options)
    else:
        consumer = AIOKafkaConsumer(group_id=None, **options)
    await consumer.start()
    try:
        if asked.mode != "group":
            consumer.assign([TopicPartition(reading.name, p) for p in range(reading.partitions)])
        while reading.goes_on:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    reading.record(
                        record.partition,
                        record.offset,
                        record.key,
                        record.value,
                        record.timestamp,
                        record.timestamp_type,
                        record.headers,
                    )
    finally:
        await consumer.stop()


async def send(asked, topic, pairs):
    producer = AIOKafkaProducer(
        bootstrap_servers=asked.bootstrap,
        acks=asked.acks if asked.acks == "all" else int(asked.acks),
        compression_type=None if asked.codec == "none" else asked.codec,
        linger_ms=50,
        **version(asked.pin),
    )
    await producer.start()
    try:
        sent = [await producer.send(topic, key=k, value=v, partition=0) for k, v in pairs]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


def main():
    logging.basicConfig(level=logging.WARNING)
    asked = arguments()
    limit = asked.wait + 8
    if asked.mode == "produce":
        produce_all(asked, lambda *what: asyncio.run(asyncio.wait_for(send(asked, *what), limit)))
    read_all(asked, lambda what: asyncio.run(asyncio.wait_for(read(asked, what), limit)))


main()
