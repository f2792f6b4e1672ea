"""The servers that get small requests, as processes: their ports, and the CPU time that they use.

To add a server, add a `Contender` to `contenders`. Kafka writes the logs that all servers read.

Not here: the requests (small_requests.py), measuring (small_fetches.py)."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from bench.measuring.segments import segment
from bench.serving import FULL_SPEED, produce
from downconvert.protocol.schemas import ApiKey, Message
from tests import kafka_server, kafka_wire
from tests.kafka_server import Node
from tests.ports import free_ports

from .draining import Address, Wire
from .gateway_clients import in_front
from .processes import PATIENCE, Serving, served
from .small_requests import FETCHED, GROUP, OLD, WRITTEN, Kind, Need

KAFKA: Final = "Kafka 3.9.1"
SERVE: Final = "serve"
GATEWAY: Final = "gateway"
PROXY: Final = "Kroxylicious"
PROXY_HOME: Final = Path(__file__).parent / "kroxylicious"
PROXIED: Final = """\
virtualClusters:
- name: cluster
  targetCluster:
    bootstrapServers: {bootstrap}
  gateways:
  - name: default
    portIdentifiesNode:
      bootstrapAddress: 127.0.0.1:{port}
      nodeStartPort: {first}
      nodeIdRanges:
      - {{name: all, start: 0, end: 0}}
"""
WARM_UP: Final = 2_000  # requests, for servers without a JIT compiler


@dataclass(frozen=True, slots=True)
class Contender:
    """A server. `warm_up`: the number of requests before it is measured. `gets`: it gets requests
    with these needs. `only`: it gets requests whose names begin like this."""

    name: str
    port: int
    pid: int
    warm_up: int
    gets: Sequence[Need]
    only: str = ""

    def answers(self, kind: Kind) -> bool:
        """Whether this server gets requests of this kind."""
        return kind.needs in self.gets and kind.name.startswith(self.only)

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds of all its threads that still run."""
        nanoseconds = 0
        for thread in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                nanoseconds += int(thread.read_text().split()[0])
        return nanoseconds / 1e9


@contextmanager
def contenders(warm_up: int) -> Iterator[list[Contender]]:
    """Runs all servers during the block. `warm_up`: requests to a JVM before it is measured. The
    others need few."""
    with tempfile.TemporaryDirectory(prefix="small-fetches-") as temporary:
        log_dir, own = Path(temporary) / "kafka", Path(temporary) / "own"
        log_dir.mkdir()
        own.mkdir()
        with (
            kafka_server.running(log_dir=log_dir, jvm_options=FULL_SPEED) as kafka,
            kafka_server.running(kafka_server.NEW, jvm_options=FULL_SPEED) as cluster,
        ):
            port = kafka.ports[0]
            for server in (kafka, cluster):
                for shape in FETCHED:
                    server.create_topic(shape.name)
                    records = [segment(shape, directory=Path(temporary))]
                    produce(server.ports[0], shape.name, records)
            kafka.create_topic(WRITTEN)
            with (
                served(log_dir, "--follow", "--uncommitted") as reading,
                served(own, "--writable", "--rebalance-delay", "0") as writing,
                in_front(cluster.bootstrap) as through,
                proxy_before(cluster.bootstrap, Path(temporary)) as (proxy, proxy_port),
            ):
                create_written(writing.address)
                _await_coordinator(("127.0.0.1", port))
                few = min(warm_up, WARM_UP)
                yield [
                    Contender(KAFKA, port, kafka.pid(0), warm_up, (Need.RECORDS, Need.WRITABLE)),
                    Contender(SERVE, *_place(reading), few, (Need.RECORDS,)),
                    Contender(SERVE, *_place(writing), few, (Need.WRITABLE,)),
                    Contender(GATEWAY, *_place(through), few, (Need.RECORDS,), f"Fetch v{OLD} "),
                    Contender(GATEWAY, *_place(through), few, (Need.CLUSTER,)),
                    Contender(PROXY, proxy_port, proxy.pid, warm_up, (Need.CLUSTER,)),
                ]


@contextmanager
def proxy_before(bootstrap: str, directory: Path) -> Iterator[tuple[Node, int]]:
    """Kroxylicious without filters before a cluster: its process and its port. KafkaError: it
    does not answer."""
    port, first = free_ports(2)
    file = directory / "proxy.yaml"
    file.write_text(PROXIED.format(bootstrap=bootstrap, port=port, first=first))
    classes = kafka_server.fetched(PROXY_HOME / "pom.xml", "kroxylicious")
    program = ("-cp", classes, str(PROXY_HOME / "Proxy.java"), str(file))
    node = Node(directory, ("java", *FULL_SPEED, *program))
    node.start()
    try:
        node.until(partial(kafka_wire.answers, port), PROXY)
        yield node, port
    finally:
        node.kill()


def _place(server: Serving) -> tuple[int, int]:
    """A server's port and process."""
    return server.address[1], server.pid


def create_written(address: Address) -> None:
    topic = Message(
        name=WRITTEN, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    with Wire(address) as wire:
        body = Message(topics=[topic], timeout_ms=30_000)
        (made,) = wire.ask(ApiKey.CreateTopics, 2, body).topics
    if made.error_code:
        raise RuntimeError(f"no topic {WRITTEN}: error {made.error_code}")


def _await_coordinator(address: Address) -> None:
    """Waits until the broker has created the topic of offsets. TimeoutError."""
    give_up = monotonic() + PATIENCE
    with Wire(address) as wire:
        while wire.ask(ApiKey.FindCoordinator, 0, Message(key=GROUP)).error_code:
            if monotonic() > give_up:
                raise TimeoutError("there is no coordinator of groups")
            sleep(0.1)
