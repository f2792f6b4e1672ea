"""The servers that get small requests, as processes: their ports, and the CPU time that they use.

To add a server, add a `Contender` to `contenders`. Kafka writes the logs that all servers read.

Not here: the requests (small_requests.py), measuring (small_fetches.py)."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from downconvert.protocol.schemas import ApiKey, Message
from tests import kafka_server

from .draining import Address, Wire
from .processes import PATIENCE, served
from .segments import segment
from .serving import FULL_SPEED, produce
from .small_requests import FETCHED, GROUP, WRITTEN, Kind

KAFKA: Final = "Kafka 3.9.1"
SERVE: Final = "serve"
WARM_UP: Final = 2_000  # requests, for servers without a JIT compiler


@dataclass(frozen=True, slots=True)
class Contender:
    """A server. `warm_up`: the number of requests before it is measured. `writes`: it gets only the
    kinds with this value of `writes`; None: all kinds."""

    name: str
    port: int
    pid: int
    warm_up: int
    writes: bool | None = None

    def answers(self, kind: Kind) -> bool:
        """Whether this server gets requests of this kind."""
        return self.writes is None or self.writes == kind.writes

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds of all its threads that still run."""
        nanoseconds = 0
        for thread in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # it has ended
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
        with kafka_server.running(log_dir=log_dir, jvm_options=FULL_SPEED) as kafka:
            port = kafka.ports[0]
            for shape in FETCHED:
                kafka.create_topic(shape.name)
                produce(port, shape.name, [segment(shape, directory=Path(temporary))])
            kafka.create_topic(WRITTEN)
            with (
                served(log_dir, "--follow", "--uncommitted") as reading,
                served(own, "--writable", "--rebalance-delay", "0") as writing,
            ):
                create_written(writing.address)
                _await_coordinator(("127.0.0.1", port))
                few = min(warm_up, WARM_UP)
                yield [
                    Contender(KAFKA, port, kafka.pid(0), warm_up),
                    Contender(SERVE, reading.address[1], reading.pid, few, writes=False),
                    Contender(SERVE, writing.address[1], writing.pid, few, writes=True),
                ]


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
