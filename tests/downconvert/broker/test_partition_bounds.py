"""The bounds of a partition: the version of a decision, and the high watermark of a cut log."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.broker.partition import Partition
from downconvert.broker.replication.leader_epochs import EpochEnd
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.storage import DiskFullError
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.names import OFFSET_MAX
from tests.downconvert.storage.logs import batch

from .test_partition import produce
from .two_replicas import OTHER, OWN, decision, partition_of


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Partition]:
    """A follower of five records, three of them below the high watermark."""
    with partition_of(tmp_path, OTHER) as partition:
        for offset in range(5):
            partition.append_from_leader(memoryview(batch(offset, leader_epoch=1)), 3)
        yield partition


def test_a_decision_of_a_known_version_changes_nothing(follower: Partition) -> None:
    """A repeated version of the controller's decisions is not newer."""
    follower.assign(decision(1, OWN, epoch=2), 0.0)
    assert (follower.leader, follower.leader_epoch) == (OTHER, 1)
    follower.assign(decision(2, OWN), 0.0)
    assert (follower.leader, follower.leader_epoch) == (OWN, 2)


def test_the_high_watermark_is_not_above_the_end_of_a_truncated_log(follower: Partition) -> None:
    """A truncation below the high watermark lowers it to the log's new end."""
    assert (follower.end_offset, follower.high_watermark) == (5, 3)
    assert follower.truncate(EpochEnd(1, 2)) == 2
    assert follower.high_watermark == 2


@pytest.mark.parametrize("full_in", range(12))
@pytest.mark.parametrize("restarts", [False, True])
def test_the_high_watermark_is_not_above_the_end_of_a_log_that_was_cut_in_part(
    tmp_path: Path, restarts: bool, full_in: int
) -> None:
    """Else records that come later, and are not committed, would be sent to consumers."""
    disk = FaultyDisk(tmp_path)
    with partition_of(tmp_path, OTHER, disk) as follower:
        for offset in range(5):
            follower.append_from_leader(memoryview(batch(offset, leader_epoch=1)), 3)
        disk.fill_in(full_in)
        with suppress(DiskFullError):
            if restarts:
                follower.restart_at(9)
            else:
                follower.truncate(EpochEnd(1, 2))
        disk.fill(is_full=False)
        assert follower.high_watermark <= max(follower.end_offset, follower.start_offset)
        if follower.end_offset == 5:
            assert follower.high_watermark == 3


@pytest.mark.parametrize(
    ("isr_min", "isr", "high_watermark"),
    [
        (1, {OWN}, 5),
        (2, {OWN}, 3),
        (2, {OWN, OTHER}, 5),
        (3, {OWN, OTHER}, 5),  # there are two replicas: more can never be in sync
        (3, {OWN}, 3),
    ],
)
def test_records_are_committed_with_as_many_replicas_in_sync_as_there_can_be(
    follower: Partition, isr_min: int, isr: set[int], high_watermark: int
) -> None:
    """The follower becomes the leader. The other replica has all records."""
    leadership = replace(decision(2, OWN), isr=frozenset(isr))
    follower.assign(leadership, 0.0, isr_min=isr_min)
    follower.follower_fetched(OTHER, 5, 0.0)
    assert follower.high_watermark == high_watermark


@pytest.mark.parametrize("replica_id", [OWN, 7])
def test_only_other_brokers_with_a_replica_are_followers(
    follower: Partition, replica_id: int
) -> None:
    """The leader itself is none of its followers."""
    follower.assign(decision(2, OWN), 0.0)
    with pytest.raises(ApiError, match=f"broker {replica_id} has no replica") as caught:
        follower.follower_fetched(replica_id, 5, 0.0)
    assert caught.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(("noted", "expected"), [(1, 2), (2, 2), (4, 4), (5, 5), (9, 5)])
def test_a_noted_high_watermark_counts_within_the_log(
    follower: Partition, noted: int, expected: int
) -> None:
    """Records below the start were deleted after the high watermark had been noted."""
    follower.follow_start(2)
    follower.await_controller(noted)
    assert (follower.start_offset, follower.high_watermark) == (2, expected)


def test_a_truncation_below_the_start_leaves_an_empty_log_there(follower: Partition) -> None:
    follower.follow_start(3)
    assert follower.truncate(EpochEnd(1, 2)) == 3
    assert (follower.start_offset, follower.end_offset, follower.high_watermark) == (3, 3, 3)


@pytest.mark.parametrize(("left", "fits"), [(3, True), (4, True), (2, False), (0, False)])
def test_a_log_ends_at_the_largest_offset(follower: Partition, left: int, fits: bool) -> None:
    """The offset after the last record is one, too."""
    follower.assign(decision(2, OWN), 0.0)
    start = OFFSET_MAX - left
    follower.restart_at(start)
    if fits:
        produce(follower, 3)
        assert (follower.start_offset, follower.end_offset) == (start, start + 3)
    else:
        with pytest.raises(ApiError, match="no offsets left") as caught:
            produce(follower, 3)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert follower.end_offset == start
