"""A large request causes no full collection of garbage, during which all clients would wait."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from downconvert.protocol.decoder import decode
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import Message
from downconvert.serving.garbage import FULL_EVERY, rare_collections

FULL = 2  # the oldest generation


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generation of each collection while they are rare."""
    found = list[int]()

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop":
            found.append(info["generation"])

    gc.callbacks.append(note)
    with rare_collections():
        gc.collect()
        found.clear()
        yield found
    gc.callbacks.remove(note)


def test_a_request_with_many_partitions_causes_no_full_collection(collections: list[int]) -> None:
    partitions = [Message(partition=number) for number in range(50_000)]
    topics = [Message(topic="t", partitions=partitions)]
    collections.clear()
    data = memoryview(encode("FetchRequest", 11, Message(topics=topics)))
    body = decode("FetchRequest", 11, data)
    assert len(body.topics[0].partitions) == len(partitions)
    assert FULL not in collections


@pytest.fixture
def thresholds() -> Iterator[tuple[int, int, int]]:
    """Other ones than those of Python, and than those that this module sets."""
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 7)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def test_afterwards_collections_are_as_frequent_as_before(
    thresholds: tuple[int, int, int],
) -> None:
    with rare_collections():
        assert gc.get_threshold() == (*thresholds[:2], FULL_EVERY)
    assert gc.get_threshold() == thresholds
    with pytest.raises(OSError, match="port"), rare_collections():
        raise OSError("a port is taken")
    assert gc.get_threshold() == thresholds


def test_young_objects_that_refer_to_each_other_are_found_at_once(collections: list[int]) -> None:
    """Each of them may hold a request."""
    for _ in range(5000):
        cycle: list[Any] = []
        cycle.append(cycle)
    assert collections
