"""The bounds of a partition: the version of a decision, and the high watermark of a cut log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker.partition import Partition
from downconvert.broker.replication.leader_epochs import EpochEnd
from downconvert.broker.replication.replica import Leadership
from downconvert.storage import Log, TopicPartition
from tests.downconvert.storage.logs import batch

OTHER, OWN = 0, 1


def decision(epoch: int, version: int, leader: int = OTHER) -> Leadership:
    both = frozenset({OTHER, OWN})
    return Leadership(
        leader=leader,
        leader_epoch=epoch,
        replicas=(OTHER, OWN),
        isr=both,
        alive=both,
        version=version,
    )


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Partition]:
    """A follower of five records, three of them below the high watermark."""
    path = tmp_path / "t-0"
    path.mkdir()
    with Log.open(path, writable=True) as log:
        partition = Partition(TopicPartition("t", 0), log, OWN)
        partition.assign(decision(1, 1), 0.0)
        for offset in range(5):
            partition.append_from_leader(memoryview(batch(offset, leader_epoch=1)), 3)
        yield partition


def test_a_decision_of_a_known_version_changes_nothing(follower: Partition) -> None:
    """A repeated version of the controller's decisions is not newer."""
    follower.assign(decision(2, 1, leader=OWN), 0.0)
    assert (follower.leader, follower.leader_epoch) == (OTHER, 1)
    follower.assign(decision(2, 2, leader=OWN), 0.0)
    assert (follower.leader, follower.leader_epoch) == (OWN, 2)


def test_the_high_watermark_is_not_above_the_end_of_a_truncated_log(follower: Partition) -> None:
    """A truncation below the high watermark lowers it to the log's new end."""
    assert (follower.end_offset, follower.high_watermark) == (5, 3)
    assert follower.truncate(EpochEnd(1, 2)) == 2
    assert follower.high_watermark == 2
