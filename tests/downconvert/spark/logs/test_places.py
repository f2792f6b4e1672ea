"""An offset with the leader epoch before it identifies a record."""

from typing import Any

import pytest

from downconvert.spark.logs.places import (
    Place,
    Wait,
    from_json,
    to_json,
    where_changed,
)
from downconvert.storage import TopicPartition
from downconvert.storage.checkpoints.checkpoint import EpochEntry
from records import MemoryRecords
from tests.downconvert.storage.logs import batch

NAME = TopicPartition("a-b", 3)


@pytest.mark.parametrize(
    ("place", "json"),
    [
        (Place(7), 7),
        (Place(7, 0), {"offset": 7, "leaderEpoch": 0}),
        (
            Place(7, -1, Wait(1_700_000_000_000, 9)),
            {
                "offset": 7,
                "leaderEpoch": -1,
                "waitingSince": 1_700_000_000_000,
                "waitingUpTo": 9,
            },
        ),
    ],
)
def test_as_json(place: Place, json: Any) -> None:
    assert to_json({NAME: place}) == {"a-b": {"3": json}}
    assert from_json({"a-b": {"3": json}}) == {NAME: place}


@pytest.mark.parametrize("given", [None, "7", {"offset": 7}, [7], {"offset": "7"}])
def test_values_that_are_no_place_are_refused(given: object) -> None:
    with pytest.raises(ValueError, match="not an offset in a checkpoint"):
        from_json({"a": {"0": given}})


@pytest.mark.parametrize(
    ("noted", "headers", "expected"),
    [
        ([(2, 3)], [], 3),
        ([(2, 4)], [(0, 0), (1, 2)], 1),  # an epoch that begins where nothing was read
        ([(0, 0), (1, 2)], [(0, 0), (3, 2)], 3),
        ([], [(0, 0), (6, 2)], 4),
        ([], [(0, 0), (4, 1)], 4),
        ([], [(0, 0), (2, 1)], 4),
        ([], [], 4),
    ],
)
def test_where_it_was_written_anew_by_what_is_left(
    noted: list[tuple[int, int]], headers: list[tuple[int, int]], expected: int
) -> None:
    """Leader epochs of the checkpoint and of batches."""
    data = b"".join(batch(offset, leader_epoch=epoch) for offset, epoch in headers)
    entries = [EpochEntry(*one) for one in noted]

    def changed(now: int) -> int | None:
        place = Place(4, 1)
        return where_changed(place, lambda: now, lambda: entries, MemoryRecords(data).batches)

    assert changed(2) == expected
    assert changed(0) == expected
    assert changed(1) is None
    assert changed(-1) is None


def test_a_place_is_of_a_topic_unless_both_ids_are_known_and_differ() -> None:
    assert Place(5, topic_id="A").is_of("A")
    assert Place(5, topic_id="A").is_of(None)
    assert Place(5).is_of("A")
    assert not Place(5, topic_id="A").is_of("B")
