"""The gateway in front of three brokers of Kafka 4 whose leaders move and which die, one after the
other, while old clients write and read through it.

Their log as a new client reads it directly is the truth: all that was acknowledged is there, and
who reads through the gateway gets just that."""

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from signal import SIGTERM
from threading import Event, Thread
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from downconvert.gateway.server import Gateway
from tests.kafka_server import NEW, KafkaServer, running

from .serving import gateway

TOPIC = "moves"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
WRITERS: dict[bytes, tuple[int, ...] | None] = {b"0.8": (0, 8, 2), b"0.10": (0, 10), b"now": None}
PATIENCE = 180.0  # seconds
PROGRESS = 30  # records that each producer must have acknowledged after each fault
PAUSE = 0.02  # seconds between two records of a producer
Place = tuple[int, int]  # a partition and an offset


def wait_for(holds: Callable[[], bool], *clients: "Client") -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        for client in clients:
            assert client.failure is None, client.failure
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Client(ABC):
    """Works in a thread of its own until it is stopped."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._work, daemon=True)

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def work(self) -> None:
        """Until it is to stop."""


class Writer(Client):
    """Writes numbers to all partitions by turns, each when the last one is acknowledged."""

    def __init__(self, name: bytes, bootstrap: str, pin: tuple[int, ...] | None) -> None:
        super().__init__()
        self.name = name
        self.acknowledged: list[int] = []
        options: dict[str, Any] = {} if pin is None else {"api_version": pin}
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            retries=10_000,
            retry_backoff_ms=50,
            max_in_flight_requests_per_connection=1,
            delivery_timeout_ms=int(PATIENCE * 1000),
            **({"enable_idempotence": False} | options),
        )

    def work(self) -> None:
        number = 0
        while not self._stopping.wait(PAUSE):
            value, partition = self.name + b"/%d" % number, number % len(PARTITIONS)
            sent = self._producer.send(TOPIC, value, partition=partition)
            sent.get(timeout=PATIENCE)
            self.acknowledged.append(number)
            number += 1
        self._producer.close()


class Reader(Client):
    """Reads all partitions; with a group, commits what it has read."""

    def __init__(self, bootstrap: str, pin: tuple[int, ...], group: str | None = None) -> None:
        super().__init__()
        self.found: list[tuple[Place, bytes]] = []
        self._options = {"bootstrap_servers": bootstrap, "api_version": pin, "group_id": group}

    def work(self) -> None:
        consumer = KafkaConsumer(
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=50,
            **self._options,
        )
        if self._options["group_id"] is None:
            consumer.assign(PARTITIONS)
            consumer.seek_to_beginning()
        else:
            consumer.subscribe([TOPIC])
        while not self._stopping.is_set():
            polled = consumer.poll(timeout_ms=200)
            for partition, records in polled.items():
                self.found += [((partition.partition, one.offset), one.value) for one in records]
            if polled and self._options["group_id"] is not None:
                try:
                    consumer.commit()
                except KafkaError:
                    continue  # as when its coordinator moves: it reads again what it read
        consumer.close()

    def has(self, places: set[Place]) -> bool:
        return {place for place, _ in self.found} >= places


@contextmanager
def cluster() -> Iterator[tuple[KafkaServer, Gateway]]:
    with (
        running(NEW, nodes=3) as kafka,
        gateway(*kafka.ports, nodes=3, refresh_seconds=1.0) as front,
    ):
        config = {"min.insync.replicas": "2"}
        kafka.create_topic(TOPIC, partitions=len(PARTITIONS), replicas=3, config=config)
        yield kafka, front


def read_directly(kafka: KafkaServer) -> dict[Place, bytes]:
    """The log, as a client of today reads it from the brokers."""
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
    consumer.assign(PARTITIONS)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(PARTITIONS)
    found: dict[Place, bytes] = {}
    deadline = time.monotonic() + PATIENCE
    while any(consumer.position(partition) < ends[partition] for partition in PARTITIONS):
        assert time.monotonic() < deadline
        for partition, records in consumer.poll(timeout_ms=500).items():
            found |= {(partition.partition, one.offset): one.value for one in records}
    consumer.close()
    return found


def elect_preferred(kafka: KafkaServer) -> None:
    """Leaders move, and nobody dies."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.elect_leaders(0, {TOPIC: [one.partition for one in PARTITIONS]}, raise_errors=False)
    admin.close()


def test_nothing_is_lost_or_doubled_while_leaders_move_and_brokers_die() -> None:
    with cluster() as (kafka, front), ExitStack() as stack:
        address = str(front.address)
        writers = [
            stack.enter_context(Writer(name, kafka.bootstrap if pin is None else address, pin))
            for name, pin in WRITERS.items()
        ]
        alone = stack.enter_context(Reader(address, (0, 8, 2)))
        grouped = stack.enter_context(Reader(address, (0, 9), "old"))

        def go_on() -> None:
            """Everybody does, those who read as well."""
            wanted = [(one, len(one.acknowledged) + PROGRESS) for one in writers]
            read = [(one, len(one.found) + PROGRESS) for one in (alone, grouped)]
            wait_for(
                lambda: (
                    all(len(one.acknowledged) >= count for one, count in wanted)
                    and all(len(one.found) >= count for one, count in read)
                ),
                *writers,
                alone,
                grouped,
            )

        go_on()
        kafka.kill(0)
        go_on()
        kafka.restart(0)
        elect_preferred(kafka)
        go_on()
        kafka.kill(1, SIGTERM)
        go_on()
        for writer in writers:
            writer.__exit__()
        truth = read_directly(kafka)
        wait_for(lambda: alone.has(set(truth)) and grouped.has(set(truth)), alone, grouped)
        wait_for(lambda: not front.figures().unready)
        assert not front.figures().ends["defect"]
    assert dict(alone.found) == truth
    assert len(alone.found) == len(truth), "each once"
    assert dict(grouped.found) == truth
    numbers = defaultdict[tuple[bytes, int], list[int]](list)
    for (partition, _), value in sorted(truth.items()):
        name, _, number = value.partition(b"/")
        numbers[name, partition].append(int(number))
    for writer in writers:
        for partition in PARTITIONS:
            found = numbers[writer.name, partition.partition]
            wanted = [n for n in writer.acknowledged if n % 3 == partition.partition]
            assert list(dict.fromkeys(found)) == wanted
            assert found == sorted(found), "twice is only what was tried again, and where"
