"""Real consumers in groups, over real sockets."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CommitFailedError, RebalanceInProgressError
from kafka.structs import OffsetAndMetadata

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.storage import LogDir
from records import Columns, build

PARTITIONS, RECORDS = 4, 25
PATIENCE = 120.0  # seconds
CONFIG: dict[str, Any] = {
    "group_id": "readers",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 20_000,  # a busy machine is not taken for a dead member
    "heartbeat_interval_ms": 300,
    "metadata_max_age_ms": 500,  # a client may join before it has heard of the topic
}


@contextmanager
def serving(path: Path) -> Iterator[str]:
    """The address of a broker that keeps its log there."""
    config = BrokerConfig(
        is_writable=True,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=100,
        log_initial_task_delay_ms=0,  # retention at once: a busy machine waits longer, too
        log_retention_check_interval_ms=100,
    )
    with LogDir.open(path, writable=True) as log_dir:
        broker = Broker(log_dir, config)
        if "events" not in broker.topics:
            now = int(time.time() * 1000)  # older records are removed after a week, whoever reads
            topic = broker.topics.create("events", PARTITIONS, {}, now)
            for index, partition in topic.partitions.items():
                values = [f"{index}/{number}".encode() for number in range(RECORDS)]
                columns = Columns(range(RECORDS), [now] * RECORDS, [None] * RECORDS, values)
                partition.log.writer.append(build(columns, magic=2))
        with Server(broker) as server:
            host, port = server.address
            yield f"{host}:{port}"


def consumer_of(address: str, **config: Any) -> KafkaConsumer:
    """A kafka-python consumer of the topic, which knows its partitions before it joins a group.

    Without that it joins twice: kafka-python 3.0 joins at once, with no partitions, and again when
    it hears of them. If a poll gives up in the middle of the second join, the consumer sends no
    heartbeat any more, and never gets its assignment. Its leader takes the partitions that it has
    just assigned for a reason not to join (`need_rejoin`), and so forgets the join under way."""
    consumer = KafkaConsumer("events", bootstrap_servers=address, **CONFIG, **config)
    assert consumer.partitions_for_topic("events") == set(range(PARTITIONS))
    return consumer


class Reader:
    """A kafka-python consumer with a thread of its own."""

    def __init__(self, address: str, **config: Any) -> None:
        self.values: list[bytes] = []
        self.assigned: set[TopicPartition] = set()
        self.error: BaseException | None = None
        self._end = threading.Event()
        self._consumer = consumer_of(address, **config)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                for records in self._consumer.poll(timeout_ms=100).values():
                    self.values += [record.value for record in records]
                self.assigned = set(self._consumer.assignment())
                # A commit may meet the group on its way to a new generation.
                with suppress(CommitFailedError, RebalanceInProgressError):
                    self._consumer.commit()
        except BaseException as error:
            self.error = error
        finally:
            self._consumer.close(autocommit=False)

    def stop(self) -> None:
        self._end.set()
        self._thread.join(PATIENCE)
        assert self.error is None, self.error


def until(is_so: Callable[[], bool], *readers: Reader) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        for reader in readers:
            if reader.error is not None:
                raise reader.error
        assert time.monotonic() < end, "it has not come to this"
        time.sleep(0.02)


@pytest.mark.parametrize("version", [(0, 9), (0, 10, 0), (0, 11), (1, 0), None], ids=str)
def test_two_consumers_share_a_topic_and_one_takes_over(
    tmp_path: Path, version: tuple[int, ...] | None
) -> None:
    config = {} if version is None else {"api_version": version}
    everything = {b"%d/%d" % (p, n) for p in range(PARTITIONS) for n in range(RECORDS)}
    with serving(tmp_path) as address:
        first = Reader(address, **config)
        until(lambda: len(first.assigned) == PARTITIONS, first)
        second = Reader(address, **config)
        until(lambda: len(first.assigned) == len(second.assigned) == PARTITIONS // 2, first, second)
        assert not first.assigned & second.assigned
        until(lambda: set(first.values) | set(second.values) == everything, first, second)
        second.stop()
        until(lambda: len(first.assigned) == PARTITIONS, first)
        first.stop()


def test_a_group_continues_after_a_restart_of_the_broker(tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        consumer = KafkaConsumer(bootstrap_servers=address, **CONFIG)
        at = TopicPartition("events", 1)
        consumer.assign([at])
        consumer.commit({at: OffsetAndMetadata(20, "so far", -1)})
        consumer.close()
    with serving(tmp_path) as address:
        consumer = consumer_of(address)
        seen = dict.fromkeys(range(PARTITIONS), 0)
        end = time.monotonic() + PATIENCE
        while sum(seen.values()) < 3 * RECORDS + 5 and time.monotonic() < end:
            for partition, records in consumer.poll(timeout_ms=100).items():
                seen[partition.partition] += len(records)
        assert seen == {0: RECORDS, 1: 5, 2: RECORDS, 3: RECORDS}
        assert consumer.committed(at, metadata=True).metadata == "so far"
        consumer.close()


def test_aiokafka_members_share_a_topic_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    async def run(address: str) -> None:
        config = {**CONFIG, "session_timeout_ms": 1_000}
        consumers = [
            AIOKafkaConsumer("events", bootstrap_servers=address, **config) for _ in range(2)
        ]
        for consumer in consumers:
            await consumer.start()
        first, second = consumers
        async with asyncio.timeout(PATIENCE):
            while not len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2:
                await asyncio.sleep(0.02)
            seen: set[bytes] = set()
            while len(seen) < PARTITIONS * RECORDS:
                for consumer in consumers:
                    batches = await consumer.getmany(timeout_ms=100)
                    seen |= {one.value for records in batches.values() for one in records}
            # It does not leave the group: its connections just end.
            await second._coordinator._stop_heartbeat_task()
            await second._client.close()
            while len(first.assignment()) != PARTITIONS:
                await asyncio.sleep(0.02)
        assert len(seen) == PARTITIONS * RECORDS
        await first.stop()

    with serving(tmp_path) as address:
        asyncio.run(run(address))
