"""Places of a stream in a log: an offset, with the leader epoch of the record before it."""

from pathlib import Path

import pytest

from downconvert.spark.logs.places import Place
from downconvert.spark.logs.trees import read_partition
from downconvert.spark.options.options import Options
from downconvert.spark.stores.object_cache import ObjectCache
from downconvert.spark.stream.follow import LogFollower
from downconvert.spark.stream.followed_logs import FollowedLog, FollowedLogs
from downconvert.storage import TopicPartition
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

from .test_follow import OPTIONS

ID, OTHER = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def followed(path: Path, *batches: bytes) -> FollowedLog:
    """A log in a mounted directory."""
    directory = partition(path, b"".join(batches), "t-0")
    log = read_partition(TopicPartition("t", 0), str(directory))
    return FollowedLog(log, Options(paths=(str(path),)), ObjectCache())


def test_the_epoch_in_front_of_an_offset(tmp_path: Path) -> None:
    found = followed(
        tmp_path, batch(0, 1, leader_epoch=2), batch(4, leader_epoch=5), batch(5, 6, magic=1)
    )
    assert [found.epoch_of(offset) for offset in range(9)] == [-1, 2, 2, -1, -1, 5, -1, -1, -1]


def test_where_a_log_was_written_anew(tmp_path: Path) -> None:
    found = followed(
        tmp_path,
        batch(0, 1, leader_epoch=0),
        batch(2, 3, leader_epoch=3),
        batch(4, leader_epoch=4),
    )
    assert found.changed_from(Place(4, 3)) is None
    assert found.changed_from(Place(5, 3)) == 4
    assert found.changed_from(Place(4, 0)) == 2
    assert found.changed_from(Place(5, 0)) == 2
    assert found.changed_from(Place(4)) is None  # nobody noted an epoch
    assert found.changed_from(Place(9, 0)) is None  # not there: who asks compares ends
    assert found.changed_from(Place(2, 1)) == 2  # a copy that was left behind has no later epoch
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    path.write_text("0\n3\n0 0\n3 2\n4 4\n")
    assert found.changed_from(Place(5, 0)) == 2
    assert found.changed_from(Place(5, 3)) == 4


@pytest.mark.parametrize(
    ("offset", "known", "epoch", "topic_id"),
    [
        (5, Place(5, 2), 2, None),  # the record before it was compacted, perhaps
        (5, Place(3, 2), -1, None),  # that was another record
        (5, Place(5, 2, topic_id=ID), 2, None),  # the directory does not say of which topic it is
        (5, Place(5, 2, topic_id=ID), 2, ID),
        (5, Place(5, 2, topic_id=OTHER), -1, ID),  # the topic was recreated
        (5, None, -1, None),
        (5, None, -1, ID),
    ],
)
def test_a_place_keeps_the_epoch_of_its_own_record_only(
    tmp_path: Path, offset: int, known: Place | None, epoch: int, topic_id: str | None
) -> None:
    name = TopicPartition("a", 0)
    directory = partition(tmp_path, batch(*range(9), magic=1), "a-0")  # messages without epochs
    if topic_id is not None:
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    options = Options.parse(OPTIONS | {"path": str(tmp_path)}, streaming=True)
    follower = LogFollower(options, FollowedLogs(options))
    follower.refresh()
    before = None if known is None else {name: known}
    found = follower.placed({name: offset}, before)
    if topic_id is None and known is not None:
        topic_id = known.topic_id
    assert found == {name: Place(offset, epoch, topic_id=topic_id)}
