"""The judged targets: Kafka brokers alone, the gateway in front of each, and our own broker.

All have the same setup, because the suites expect a broker in its default configuration."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.servers import processes
from bench.servers.gateway_clients import in_front
from tests import kafka_server

PARTITIONS: Final = 4  # of a topic created without a number, as librdkafka's suite expects
CLEANER_BACKOFF: Final = 15  # seconds: Kafka's log.cleaner.backoff.ms
KAFKA: Final = {
    "auto.create.topics.enable": "true",
    "num.partitions": str(PARTITIONS),
    "group.coordinator.rebalance.protocols": "classic,consumer",  # 3.9 has KIP-848 off
}


@dataclass(frozen=True, slots=True)
class Target:
    """It must not be worse than the target `reference` for current clients, and `old_reference` for
    old ones. `kafka` is the version of Kafka whose features it has; `inferred`, if different, the
    version that clients infer from the versions of its requests."""

    name: str
    title: str
    kafka: str
    start: Callable[[], AbstractContextManager[str]]
    reference: str = ""
    old_reference: str = ""
    inferred: str = ""


@contextmanager
def _kafka(version: str) -> Iterator[str]:
    with kafka_server.running(version, properties=KAFKA) as server:
        yield server.bootstrap


@contextmanager
def _gateway(version: str) -> Iterator[str]:
    with _kafka(version) as cluster, in_front(cluster) as gateway:
        yield "{}:{}".format(*gateway.address)


@contextmanager
def _serve() -> Iterator[str]:
    automatic = ("--auto-create-topics", "--default-partitions", str(PARTITIONS))
    quick = ("--rebalance-delay", "0", "--cleanup-interval", str(CLEANER_BACKOFF))
    options = ("--writable", *automatic, *quick, "--offsets-partitions", "1")
    with (
        tempfile.TemporaryDirectory(prefix="judged-") as directory,
        processes.served(Path(directory), *options) as server,
    ):
        yield "{}:{}".format(*server.address)


OLD: Final = kafka_server.OLD
NEW: Final = kafka_server.NEW
TARGETS: Final = (
    Target(f"kafka-{OLD}", f"Kafka {OLD}", OLD, partial(_kafka, OLD)),
    Target(f"kafka-{NEW}", f"Kafka {NEW}", NEW, partial(_kafka, NEW)),
    Target(
        f"gateway-{OLD}",
        f"gateway in front of {OLD}",
        OLD,
        partial(_gateway, OLD),
        reference=f"kafka-{OLD}",
        old_reference=f"kafka-{OLD}",
    ),
    Target(
        f"gateway-{NEW}",
        f"gateway in front of {NEW}",
        NEW,
        partial(_gateway, NEW),
        reference=f"kafka-{NEW}",
        old_reference=f"kafka-{OLD}",
    ),
    Target(
        "serve",
        "`serve --writable`",
        OLD,
        _serve,
        reference=f"kafka-{OLD}",
        old_reference=f"kafka-{OLD}",
        inferred="4.3.0",
    ),
)
