"""A leader and its follower."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker.replication.follower import Follower

from .following import Pair


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    paths = [tmp_path / "0", tmp_path / "1"]
    for path in paths:
        path.mkdir()
    made = Pair(paths)
    yield made
    made.close()


@pytest.fixture
def follower(pair: Pair) -> Follower:
    (found,) = pair.sides[1].followers.values()
    return found
