"""The targets of applications: brokers of Apache Kafka, and the gateway in front of one.

Not here: their names (target_names.py), how a broker is started (tests/kafka_server.py)."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from bench.servers.gateway_clients import in_front
from tests import kafka_server
from tests.kafka_server import KafkaServer

from .target_names import GATEWAY

READ_SECONDS: Final = 120.0  # for all of a topic, on a machine that is busy with others


@dataclass(frozen=True, slots=True)
class Target:
    """A server that applications may be pointed at. Topics are created and described at the
    cluster itself, by a current client."""

    name: str
    bootstrap: str
    kafka: KafkaServer
    reader: KafkaConsumer

    def create(self, topic: str) -> None:
        """A topic of one partition."""
        self.kafka.create_topic(topic)

    def fill(self, topic: str, values: Sequence[str]) -> None:
        """Back when all are acknowledged."""
        producer = KafkaProducer(bootstrap_servers=self.kafka.bootstrap)
        for value in values:
            producer.send(topic, value.encode(), partition=0)
        producer.flush(timeout=30)
        producer.close()

    def end_offset(self, topic: str) -> int:
        partition = TopicPartition(topic, 0)
        return int(self.reader.end_offsets([partition])[partition])

    def texts(self, topic: str) -> str:
        """The values of all records, a line each. AssertionError: they do not come."""
        partition = TopicPartition(topic, 0)
        self.reader.assign([partition])
        self.reader.seek(partition, 0)
        found: list[bytes] = []
        deadline = time.monotonic() + READ_SECONDS
        while self.reader.position(partition) < self.end_offset(topic):
            assert time.monotonic() < deadline, f"{topic}: {len(found)} records, and no more come"
            for records in self.reader.poll(timeout_ms=1_000).values():
                found += (record.value or b"" for record in records)
        return "\n".join(value.decode(errors="replace") for value in found)

    def commit(self, group: str, topic: str, offset: int) -> None:
        """As a consumer of a group does that has read so far."""
        partition = TopicPartition(topic, 0)
        consumer = KafkaConsumer(bootstrap_servers=self.kafka.bootstrap, group_id=group)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(offset, "", -1)}, timeout_ms=30_000)
        consumer.close()


@contextmanager
def started(names: Sequence[str]) -> Iterator[list[Target]]:
    """Targets of these names, each cluster once."""
    with ExitStack() as stack:
        clusters: dict[str, tuple[KafkaServer, KafkaConsumer]] = {}
        targets = []
        for name in names:
            version = name.removeprefix(GATEWAY)
            if version not in clusters:
                kafka = stack.enter_context(kafka_server.running(version))
                reader = KafkaConsumer(bootstrap_servers=kafka.bootstrap, fetch_max_wait_ms=100)
                stack.callback(reader.close)
                clusters[version] = kafka, reader
            kafka, reader = clusters[version]
            bootstrap = kafka.bootstrap
            if name != version:
                gateway = stack.enter_context(in_front(kafka.bootstrap))
                bootstrap = "{}:{}".format(*gateway.address)
            targets.append(Target(name, bootstrap, kafka, reader))
        yield targets
