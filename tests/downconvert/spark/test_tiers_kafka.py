"""The segments that brokers put into tiered storage (KIP-405), with those that they still have,
hold what a consumer reads: each offset once.

The brokers are real; their remote storage is Kafka's own `LocalTieredStorage`, a directory."""

import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests import kafka_server
from tests.fetching import once, run

from .reading import rows

pytestmark = pytest.mark.others

# Brokers, and whose classes for tests they are given: those of 4.4.0 are not published.
VERSIONS: Final = {kafka_server.OLD: kafka_server.OLD, kafka_server.NEW: "4.3.0"}
TOPIC: Final = "events"
PARTITIONS: Final = 2
SEGMENT_SIZE: Final = 1 << 20  # the smallest that brokers of Kafka 4 allow, too
COUNT: Final = 3000  # of a partition, of about a KB: some segments, and the one that is written to
SECONDS: Final = 120.0
MOVED: Final = "org/apache/kafka/common/utils/LogContext"
PACKAGE: Final = "org.apache.kafka.server.log.remote"


def storage_classes(version: str) -> str:
    """A class path of Kafka's classes for its tests, of which LocalTieredStorage is one, and of
    those of its clients that a later broker has elsewhere. Fetched once."""
    target = kafka_server.BUILD / f"kafka-tiered-{version}"
    names = [f"kafka-storage:{version}:jar:test", f"kafka-clients:{version}"]
    with once(target) as new:
        for name in names if new else ():
            artifact = f"-Dartifact=org.apache.kafka:{name}"
            run("mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={new}")
        if new:
            with ZipFile(new / f"kafka-clients-{version}.jar") as clients:
                moved = [name for name in clients.namelist() if name.startswith(MOVED)]
                clients.extractall(new / "moved", moved)
    return f"{target / f'kafka-storage-{version}-test.jar'}:{target / 'moved'}/"


def settings(tier: Path, classes: str) -> dict[str, str]:
    """Settings of a broker that looks several times a second for segments to copy or to delete."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": f"{PACKAGE}.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": classes,
        "rsm.config.dir": str(tier),
        "rsm.config.delete.on.close": "false",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.manager.task.interval.ms": "250",
        "log.retention.check.interval.ms": "250",
        "log.segment.delete.delay.ms": "0",
    }


def produce(bootstrap: str) -> None:
    """Compressed and not, by a transaction that is aborted early on, and by one that is not."""
    value = bytes(range(256)) * 4
    with KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for number in range(PARTITIONS * COUNT // 2):
            producer.send(TOPIC, value, b"%d" % number, partition=number % PARTITIONS)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id="one",
        linger_ms=20,
        compression_type="lz4",
    )
    producer.init_transactions()
    for is_kept in (False, True, False, True):
        producer.begin_transaction()
        for number in range(COUNT // 4):
            half = value[number % 256 :] if is_kept else b"aborted"
            producer.send(TOPIC, half, headers=[("n", b"%d" % number)], partition=number % 2)
        producer.flush()
        producer.commit_transaction() if is_kept else producer.abort_transaction()
    producer.close()
    with KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as last:
        for number in range(PARTITIONS * COUNT // 2):
            last.send(TOPIC, value, partition=number % PARTITIONS)


def consumed(
    bootstrap: str, isolation: str, topic: str = TOPIC, partitions: int = PARTITIONS
) -> list[tuple[Any, ...]]:
    """All records as a consumer gets them, from wherever the broker has them."""
    found: list[tuple[Any, ...]] = []
    with KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest"
    ) as consumer:
        named = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(named)
        ends = consumer.end_offsets(named)
        deadline = time.monotonic() + SECONDS
        while any(consumer.position(one) < ends[one] for one in named):
            assert time.monotonic() < deadline, "the consumer does not come to the end"
            for records in consumer.poll(timeout_ms=200).values():
                found += (
                    (r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers))
                    for r in records
                )
    return sorted(found, key=lambda record: record[:2])


def read(paths: Iterable[Path], **options: Any) -> list[tuple[Any, ...]]:
    found = [
        (
            row["partition"],
            row["offset"],
            row["timestamp"] // 1000,
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
        for row in rows(f"{{{','.join(map(str, paths))}}}", includeHeaders="true", **options)
    ]
    return sorted(found, key=lambda record: record[:2])


def bases(directory: Path) -> list[int]:
    """Where the segments in a directory begin: all names of files there begin with that."""
    return sorted(int(path.name[:20]) for path in directory.glob("*.log"))


def is_tiered(local: Path, remote: Path) -> bool:
    """Whether all but the segment that is written to were copied, and the first of them deleted
    here."""
    here, there = bases(local), bases(remote)
    return bool(here) and here[0] > 0 and len(here) > 1 and set(here[:-1]) <= set(there)


@pytest.mark.parametrize("version", VERSIONS)
def test_remote_and_local_parts_are_what_a_consumer_reads(tmp_path: Path, version: str) -> None:
    logs, tier = tmp_path / "logs", tmp_path / "remote"
    tier.mkdir()
    config = {
        "remote.storage.enable": "true",
        "segment.bytes": str(SEGMENT_SIZE),
        "local.retention.bytes": str(SEGMENT_SIZE),
        "retention.bytes": "-1",
    }
    properties = settings(tier, storage_classes(VERSIONS[version]))
    with kafka_server.running(version, log_dir=logs, properties=properties) as kafka:
        kafka.create_topic(TOPIC, PARTITIONS, config=config)
        produce(kafka.bootstrap)
        deadline = time.monotonic() + SECONDS
        for number in range(PARTITIONS):
            while not any(
                is_tiered(logs / f"{TOPIC}-{number}", remote)
                for remote in tier.rglob(f"{TOPIC}-{number}-*")
            ):
                assert time.monotonic() < deadline, kafka.log_of(0).read_text()[-4000:]
                time.sleep(0.1)
        wanted = {
            isolation: consumed(kafka.bootstrap, isolation)
            for isolation in ("read_uncommitted", "read_committed")
        }
    assert len(wanted["read_uncommitted"]) > len(wanted["read_committed"]) > 2 * COUNT
    for isolation, records in wanted.items():
        assert read([logs, tier], topics=TOPIC, isolation=isolation) == records
    cut = read([logs, tier], topics=TOPIC, maxPartitionBytes=300_000)
    assert cut == wanted["read_uncommitted"]
    shutil.rmtree(logs)
    found = read([tier], topics=TOPIC)
    ends = {partition: offset for partition, offset, *_ in found}
    assert ends.keys() == set(range(PARTITIONS))
    assert found == [one for one in wanted["read_uncommitted"] if one[1] <= ends[one[0]]]
