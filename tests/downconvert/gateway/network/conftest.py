"""A cluster behind the gateway, and a session whose requests pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from tests.downconvert.gateway.cluster import Through
from tests.downconvert.gateway.serving import cluster

from .sides import known


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[tuple[Broker, int]]:
    """A broker with the topic `t`, and its port."""
    with cluster(tmp_path, "t") as found:
        yield found


@pytest.fixture
def passing(tmp_path: Path) -> Iterator[Through]:
    """A session whose requests of both kinds are known, and pass."""
    with known(tmp_path) as found:
        yield found
