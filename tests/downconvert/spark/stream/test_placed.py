"""Places of a stream in a log: an offset, with the leader epoch of the record before it."""

from pathlib import Path

import pytest

from downconvert.spark.logs.places import Place
from downconvert.spark.options.options import Options
from downconvert.spark.stream.follow import LogFollower
from downconvert.spark.stream.followed_mounted import MountedLogs
from downconvert.storage import TopicPartition
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

from .test_follow import OPTIONS


@pytest.mark.parametrize(
    ("offset", "known", "epoch"),
    [
        (5, Place(5, 2), 2),  # the record before it was compacted, perhaps
        (5, Place(3, 2), -1),  # that was another record
        (5, Place(5, 2, topic_id="other"), 2),  # the directory does not say of which topic it is
        (5, None, -1),
    ],
)
def test_a_place_keeps_the_epoch_of_its_own_record_only(
    tmp_path: Path, offset: int, known: Place | None, epoch: int
) -> None:
    name = TopicPartition("a", 0)
    partition(tmp_path, batch(*range(9), magic=1), "a-0")  # old messages have no epochs
    options = Options.parse(OPTIONS | {"path": str(tmp_path)}, streaming=True)
    follower = LogFollower(options, MountedLogs(options))
    follower.refresh()
    before = None if known is None else {name: known}
    found = follower.placed({name: offset}, before)
    topic_id = None if known is None else known.topic_id
    assert found == {name: Place(offset, epoch, topic_id=topic_id)}
    follower.close()
