"""A cluster with a topic, a client that reaches it through a gateway, and children of a gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.gateway import processes
from downconvert.storage import LogDir, TopicPartition
from tests import kafka_server

from .children import Children
from .cluster import Through, modern

# Without Java there is no real cluster; an error where REQUIRE_JAVA is set.
NEEDS_KAFKA = ["test_kafka_4.py", "test_moving_leaders.py"]
collect_ignore = [] if kafka_server.REQUIRED or not kafka_server.missing() else NEEDS_KAFKA


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    """Children of `Processes` that are threads of this process."""
    found = Children()
    monkeypatch.setattr(processes, "CONTEXT", found)
    monkeypatch.setattr(processes, "RESTART_SECONDS", 0.05)
    monkeypatch.setattr(processes, "RESPONSE_SECONDS", 2.0)
    yield found
    for child in found.started:
        if child.is_alive():
            child.die()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with LogDir.open(tmp_path, writable=True) as log_dir:
        for partition in range(2):
            log_dir.logs.create(TopicPartition("t", partition))
        yield modern(Broker(log_dir, BrokerConfig(is_writable=True)))


@pytest.fixture
def through(broker: Broker) -> Through:
    return Through(broker)
