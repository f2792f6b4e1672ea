"""A broker of one topic with two partitions, and a producer that has begun."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.protocol.errors import ErrorCode
from tests.downconvert.broker.transacting import Producing
from tests.downconvert.broker.writable import writable_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", partitions=2) as broker:
        yield broker


@pytest.fixture
def producer(broker: Broker) -> Producing:
    producer = Producing(broker)
    assert producer.begin() is ErrorCode.NONE
    return producer
