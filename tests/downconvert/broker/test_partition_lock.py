"""A partition for several threads: each step takes the lock once, and checks what it finds then."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.fetch.reading import ends_with_its_segment
from downconvert.broker.partition import Partition
from downconvert.broker.replication.leader_epochs import EpochEnd
from downconvert.broker.topic_configs import append_config
from downconvert.protocol.errors import ApiError
from downconvert.serving.appending import Prepared, prepare
from downconvert.storage import Log, LogConfig
from downconvert.storage.segments.segment import Segment
from records import ControlRecordType
from records.units import MiB
from tests.downconvert.storage.logs import batch

from .late_lock import Late
from .two_replicas import OTHER, OWN, decision, partition_of
from .writable import writable_broker

CONFIG = append_config({}, BrokerConfig())


def produced(count: int = 1) -> Prepared:
    prepared = prepare(memoryview(batch(*range(count))), CONFIG, 1)
    assert prepared is not None
    return prepared


def followed(offset: int) -> memoryview:
    return memoryview(batch(offset, leader_epoch=1))


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Partition]:
    """A leader of five records, three of them below the high watermark."""
    with partition_of(tmp_path, OWN) as partition:
        for _ in range(5):
            partition.append(produced(), 0.0, 1)
        partition.follower_fetched(OTHER, 3, 0.0)
        assert (partition.end_offset, partition.high_watermark) == (5, 3)
        yield partition


@pytest.fixture
def follower(leader: Partition) -> Partition:
    """The same, after another broker has become the leader."""
    leader.assign(decision(2, OTHER, epoch=1), 0.0)
    return leader


def ignore(*_: object) -> None:
    """Every batch may be appended."""


READING: dict[str, Callable[[Partition], object]] = {
    "offsets": lambda one: one.offsets(0, 0.0, stable=True),
    "last_stable_offset": lambda one: one.last_stable_offset,
    "start_offset": lambda one: one.start_offset,
    "end_offset": lambda one: one.end_offset,
    "read": lambda one: one.read(0, MiB, 5),
    "epochs": lambda one: one.epochs(),
    "end_of_epoch": lambda one: one.end_of_epoch(1),
    "divergence": lambda one: one.divergence(5, 1),
    "producers": lambda one: one.producers(),
}
LEADING: dict[str, Callable[[Partition], object]] = {
    "append": lambda one: one.append(produced(), 0.0, 1),
    "append_marker": lambda one: one.append_marker(ControlRecordType.COMMIT, (7, 0), 1, 0.0, 1),
    "follower_fetched": lambda one: one.follower_fetched(OTHER, 5, 0.0),
}
FOLLOWING: dict[str, Callable[[Partition], object]] = {
    "append_from_leader": lambda one: one.append_from_leader(followed(5), 4),
    "follow_high_watermark": lambda one: one.follow_high_watermark(5),
    "follow_start": lambda one: one.follow_start(2),
    "truncate": lambda one: one.truncate(EpochEnd(1, 4)),
    "restart_at": lambda one: one.restart_at(9),
    "await_controller": lambda one: one.await_controller(2),
}
DECIDED: dict[str, Callable[[Partition], object]] = {
    "assign": lambda one: one.assign(decision(7, OWN), 0.0),
    "isr_change": lambda one: one.isr_change(99.0),
}


def watched(partition: Partition, at: int = 0, change: Callable[[], object] = ignore) -> Late:
    late = Late(partition.lock, at, change)
    lock: Any = late
    partition.lock = lock
    return late


@pytest.mark.parametrize("step", READING | LEADING | DECIDED)
def test_a_step_of_a_leader_takes_the_lock_once(leader: Partition, step: str) -> None:
    late = watched(leader)
    (READING | LEADING | DECIDED)[step](leader)
    assert late.times == 1


@pytest.mark.parametrize("step", READING | FOLLOWING | DECIDED)
def test_a_step_of_a_follower_takes_the_lock_once(follower: Partition, step: str) -> None:
    late = watched(follower)
    (READING | FOLLOWING | DECIDED)[step](follower)
    assert late.times == 1


STEPS = READING | LEADING | FOLLOWING | DECIDED
CHANGES = {  # of a log
    "append",
    "delete_records",
    "truncate_to",
    "truncate_fully_and_start_at",
    "begin_epoch",
}
NOT_OF_THE_LOG = {"follower_fetched", "follow_high_watermark", "await_controller"}
OF_THE_LOG = sorted((LEADING | FOLLOWING).keys() - NOT_OF_THE_LOG | {"assign"})


@pytest.mark.parametrize("step", OF_THE_LOG)
def test_the_log_is_changed_with_the_lock_held(
    leader: Partition, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    if step in FOLLOWING:
        leader.assign(decision(2, OTHER, epoch=1), 0.0)
    late, held = watched(leader), list[bool]()

    def noting(change: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            held.append(late.is_held)
            return change(*arguments)

        return noted

    writer = leader.log.writer
    for name in CHANGES:
        monkeypatch.setattr(writer, name, noting(getattr(writer, name)))
    STEPS[step](leader)
    assert held
    assert all(held)


def test_reading_a_range_takes_the_lock_once(leader: Partition) -> None:
    records = leader.read(0, MiB, 5)
    late = watched(leader)
    assert leader.upper_bound(records) >= 5
    assert late.times == 1
    assert leader.aborted(0, records) == []
    assert late.times == 2


@pytest.mark.parametrize("step", LEADING)
def test_nothing_is_appended_once_another_broker_leads(leader: Partition, step: str) -> None:
    """The same holds if the controller decided after the request came and before it had the
    lock."""
    watched(leader, 1, lambda: leader.assign(decision(2, OTHER), 0.0))
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        LEADING[step](leader)
    assert (leader.end_offset, leader.high_watermark) == (5, 3)


def test_the_newest_decision_counts_if_an_older_one_arrives_later(leader: Partition) -> None:
    watched(leader, 1, lambda: leader.assign(decision(9, OTHER), 0.0))
    leader.assign(decision(8, OWN), 0.0)
    assert (leader.leader, leader.leader_epoch, leader.version) == (OTHER, 9, 9)


def test_a_high_watermark_that_comes_late_changes_nothing(follower: Partition) -> None:
    watched(follower, 1, lambda: follower.follow_high_watermark(5))
    follower.follow_high_watermark(4)
    assert follower.high_watermark == 5


def test_a_start_that_comes_late_changes_nothing(follower: Partition) -> None:
    watched(follower, 1, lambda: follower.follow_start(3))
    follower.follow_start(2)
    assert follower.start_offset == 3


def test_a_start_is_not_above_a_high_watermark_that_was_lowered_meanwhile(
    follower: Partition,
) -> None:
    watched(follower, 1, lambda: follower.restart_at(1))
    follower.follow_start(3)
    assert (follower.start_offset, follower.end_offset) == (1, 1)


def test_a_truncation_uses_the_high_watermark_of_its_turn(follower: Partition) -> None:
    """The leader does not say where the logs diverge, so only committed records stay."""
    watched(follower, 1, lambda: follower.follow_high_watermark(4))
    assert follower.truncate(EpochEnd(-1, -1)) == 4


def test_a_refused_proposal_is_made_again_with_the_lock_held(leader: Partition) -> None:
    change = leader.isr_change(99.0)
    assert change is not None
    assert leader.isr_change(99.0) is None
    late = watched(leader)
    leader.refuse(change)
    assert leader.isr_change(99.0) == change
    assert late.times == 2


@pytest.fixture
def segmented(tmp_path: Path) -> Iterator[Partition]:
    """Three segments of one record."""
    small = LogConfig(segment_bytes=len(batch(0)))
    with writable_broker(tmp_path, "t", log_config=small) as broker:
        partition = broker.topics["t"].partitions[0]
        for offset in range(3):
            partition.log.writer.append(batch(offset))
        yield partition


def test_a_segment_that_is_removed_meanwhile_does_not_hide_the_size(
    segmented: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a scrape during a deletion of old records would call the partition offline."""
    end_of, held, late = Log.end_of, list[bool](), watched(segmented)

    def looked(log: Log, segment: Segment) -> int:
        held.append(late.is_held)
        with late:
            segmented.log.writer.delete_records(3)
        return end_of(log, segment)

    monkeypatch.setattr(Log, "end_of", looked)
    assert segmented.size() == len(batch(0))  # of the last one
    assert held == [False, False]  # nobody waits while it looks at the files


def test_the_size_of_a_log_whose_files_are_gone_is_an_error(
    segmented: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_log: Log, _segment: Segment) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(Log, "end_of", gone)
    with pytest.raises(FileNotFoundError):
        segmented.size()


def test_whether_a_fetch_ends_with_its_segment_is_known_of_the_segments_of_one_moment(
    segmented: Partition,
) -> None:
    assert ends_with_its_segment(segmented, 0, 3)
    assert not ends_with_its_segment(segmented, 2, 3)
    watched(segmented, 1, lambda: segmented.log.writer.delete_records(3))
    assert not ends_with_its_segment(segmented, 0, 3)
