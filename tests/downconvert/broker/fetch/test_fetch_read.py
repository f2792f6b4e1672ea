"""One pass over the partitions of a fetch finds records, errors and bytes to wait for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.fetch.contribution import Contribution, nothing
from downconvert.broker.fetch.fetch_read import UNKNOWN, FetchRead
from downconvert.protocol.schemas import Message
from tests.downconvert.broker.writable import writable_broker

FOUND = (Contribution(b"abc", 30, 10), nothing(20), Contribution(b"de", 400, 35))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "a", "b") as made:
        yield made


def read(broker: Broker) -> FetchRead:
    """A fetch of a partition in epoch 6, of an absent one, and of one in epoch 9."""
    made = FetchRead()
    partitions = [broker.topics["a"].partitions[0], None, broker.topics["b"].partitions[0]]
    for partition, contribution, epoch in zip(partitions, FOUND, (6, 0, 9), strict=True):
        if partition is not None:
            partition.leader_epoch = epoch
        made.add(Message(records=contribution.records), partition, contribution)
    return made


def test_a_fetch_read_begins_empty() -> None:
    made = FetchRead()
    assert (made.results, made.found) == ([], [])
    assert (made.size, made.has_news, made.is_whole) == (0, False, False)


def test_partitions_are_added_in_their_order_with_their_bytes_of_the_log(broker: Broker) -> None:
    made = read(broker)
    assert made.size == 430
    assert [one.records for one in made.results] == [b"abc", b"", b"de"]
    assert [contribution for _, _, contribution in made.found] == list(FOUND)
    assert [one and one.name.topic for one, _, _ in made.found] == ["a", None, "b"]


def test_an_epoch_is_the_one_at_the_time_of_reading(broker: Broker) -> None:
    made = read(broker)
    broker.topics["a"].partitions[0].leader_epoch = 7
    assert [epoch for _, epoch, _ in made.found] == [6, UNKNOWN, 9]
    assert UNKNOWN == -1


def test_a_fetch_that_waits_holds_no_records_and_knows_what_it_had_found(broker: Broker) -> None:
    made = read(broker)
    made.drop_records()
    assert [one.records for one in made.results] == [b""] * 3
    expected = [one._replace(records=b"") for one in FOUND]
    assert [contribution for _, _, contribution in made.found] == expected
    assert made.size == 430
