"""A rolling update of two gateways under load, as Kubernetes does it with deploy/kubernetes:
the new pod is ready, the old one leaves the Service, preStop, SIGTERM, and at most the grace
period."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.downconvert.cli.gateways import Running
from tests.downconvert.cli.running import start
from tests.downconvert.gateway.serving import cluster
from tests.ports import LOOPBACK, free_ports

from .service import Service

GRACE_SECONDS: Final = 25.0  # the pod's, without its preStop
PATIENCE: Final = 60.0  # seconds, for clients to get on
PRE_STOP_SECONDS: Final = 0.5  # a proxy here knows at once that a pod leaves
CLIENTS: Final = 2
BEFORE: Final = 50  # records of each client, before anything is changed
OLD: Final = (0, 10, 0)  # Produce 2 and Fetch 2, which Kafka 4 refuses
PARTITION: Final = TopicPartition("t", 0)


@pytest.mark.slow
def test_clients_see_nothing_of_a_rolling_update_but_new_connections(tmp_path: Path) -> None:
    bootstrap, node = free_ports(2)
    with (
        cluster(tmp_path, "t") as (_, port),
        Service([bootstrap, node]) as service,
        pod(port, service, "old-1", node) as one,
        pod(port, service, "old-2", node) as two,
    ):
        load = [Load(number, bootstrap) for number in range(CLIENTS)]
        for client in load:
            client.wait_for(BEFORE)
        with pod(port, service, "new-1", node):
            replaced(service, "old-1", one, load)
            with pod(port, service, "new-2", node):
                replaced(service, "old-2", two, load)
                read = [client.end() for client in load]
    assert service.failures == 0
    assert [client.errors for client in load] == [[]] * CLIENTS
    for client, values in zip(load, read, strict=True):
        assert client.acknowledged >= 3 * BEFORE  # before, between and after
        assert set(range(client.acknowledged)) <= values  # acknowledged, and read


@contextmanager
def pod(cluster_port: int, service: Service, name: str, node: int) -> Iterator[Running]:
    """It is in the Service once it is ready. Clients get the Service's port of broker 0."""
    ports = free_ports(2)
    process = start(
        *("gateway", "--bootstrap", f"{LOOPBACK}:{cluster_port}", "--quiet"),
        *("--listen", f"{LOOPBACK}:{ports[0]}", "--node-port", f"0={ports[1]}"),
        *("--advertise", f"{LOOPBACK}:{{{node}+id}}"),
    )
    try:
        running = Running(process, as_json=False)
        assert running.ready().startswith("ready")
        service.add(name, ports)
        yield running
    finally:
        process.kill()
        process.communicate()


def replaced(service: Service, name: str, running: Running, load: "list[Load]") -> None:
    """Ends a pod as Kubernetes does; all clients get on with the pods that are left."""
    service.remove(name)
    time.sleep(PRE_STOP_SECONDS)
    running.process.terminate()
    try:
        _, output = running.process.communicate(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        raise AssertionError("it outlives its grace period, and would be killed") from None
    assert running.process.returncode == 0
    assert "failed" not in output, output
    for client in load:
        client.wait_for(client.acknowledged + BEFORE)


class Load:
    """An old producer and an old consumer that never stop. A failed request is an error, and one
    that is sent again by the client is none."""

    def __init__(self, number: int, port: int) -> None:
        self.acknowledged = 0
        self.errors: list[BaseException] = []
        self._prefix = f"{number} "
        self._options: dict[str, Any] = {
            "bootstrap_servers": f"{LOOPBACK}:{port}",
            "api_version": OLD,
            "reconnect_backoff_ms": 20,
        }
        self._read: set[int] = set()
        self._stop, self._stop_reading = Event(), Event()
        self._producing, self._consuming = map(self._started, (self._produce, self._consume))

    def wait_for(self, acknowledged: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.acknowledged < acknowledged:
            assert not self.errors
            assert time.monotonic() < deadline, f"{self.acknowledged} of {acknowledged}"
            time.sleep(0.01)

    def end(self) -> set[int]:
        """The numbers of the records that have been read, when all acknowledged ones have."""
        for stop, thread in (
            (self._stop, self._producing),
            (self._stop_reading, self._consuming),
        ):
            stop.set()
            thread.join(PATIENCE)
            assert not thread.is_alive()
        return self._read

    def _started(self, work: Callable[[], None]) -> Thread:
        thread = Thread(target=self._run, args=(work,), daemon=True)
        thread.start()
        return thread

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)

    def _produce(self) -> None:
        producer = KafkaProducer(**self._options, acks="all", retries=5, enable_idempotence=False)
        while not self._stop.is_set():
            value = f"{self._prefix}{self.acknowledged}".encode()
            producer.send("t", value, partition=0).get(PATIENCE)
            self.acknowledged += 1
        producer.close()

    def _consume(self) -> None:
        consumer = KafkaConsumer(**self._options, auto_offset_reset="earliest")
        consumer.assign([PARTITION])
        deadline = None
        while not (self._stop_reading.is_set() and len(self._read) >= self.acknowledged):
            for record in consumer.poll(100).get(PARTITION, ()):
                prefix, _, number = record.value.decode().rpartition(" ")
                if f"{prefix} " == self._prefix:
                    self._read.add(int(number))
            if self._stop_reading.is_set():
                deadline = deadline or time.monotonic() + PATIENCE / 2
                assert time.monotonic() < deadline, "acknowledged records have not been read"
        consumer.close()
