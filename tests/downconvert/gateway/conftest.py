"""A cluster with a topic, and a client that reaches it through a gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.storage import LogDir, TopicPartition
from tests import kafka_server

from .cluster import Through, modern

# Without Java there is no real cluster; an error where REQUIRE_JAVA is set.
NEEDS_KAFKA = ["test_kafka_4.py", "test_moving_leaders.py"]
collect_ignore = [] if kafka_server.REQUIRED or not kafka_server.missing() else NEEDS_KAFKA


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with LogDir.open(tmp_path, writable=True) as log_dir:
        for partition in range(2):
            log_dir.logs.create(TopicPartition("t", partition))
        yield modern(Broker(log_dir, BrokerConfig(is_writable=True)))


@pytest.fixture
def through(broker: Broker) -> Through:
    return Through(broker)
