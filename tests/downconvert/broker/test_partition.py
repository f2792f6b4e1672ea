"""A partition with followers: what is committed, who may read how far, and who is turned away."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.broker.config import BrokerConfig
from downconvert.broker.partition import Partition
from downconvert.broker.replication.leader_epochs import EpochEnd
from downconvert.broker.replication.replica import Leadership
from downconvert.broker.topic_configs import append_config
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.serving.appending import prepare
from downconvert.storage import Log, TopicPartition
from records import FileRecords, Record, TimestampType, build
from records.formats import V2
from tests.downconvert.storage.logs import batch

CONFIG = append_config({}, BrokerConfig())
LEADER, FOLLOWER = 0, 1


def leadership(epoch: int = 1, version: int = 1, leader: int | None = LEADER) -> Leadership:
    both = frozenset({LEADER, FOLLOWER})
    return Leadership(
        leader=leader, leader_epoch=epoch, replicas=(0, 1), isr=both, alive=both, version=version
    )


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[list[Log]]:
    paths = [tmp_path / str(node) / "t-0" for node in (LEADER, FOLLOWER)]
    for path in paths:
        path.mkdir(parents=True)
    found = [Log.open(path, writable=True) for path in paths]
    yield found
    for log in found:
        log.close()


@pytest.fixture
def replicas(logs: list[Log]) -> tuple[Partition, Partition]:
    """Those of a leader and of its follower."""
    leader, follower = (
        Partition(TopicPartition("t", 0), log, n, set()) for n, log in enumerate(logs)
    )
    for partition in (leader, follower):
        partition.assign(leadership(), 0.0)
    return leader, follower


def produce(partition: Partition, count: int = 1, now: float = 0.0, time: int = 1) -> None:
    prepared = prepare(memoryview(batch(*range(count))), CONFIG, time)
    assert prepared is not None
    partition.append(prepared, now, time)


def bytes_of(records: FileRecords) -> memoryview:
    data = memoryview(bytearray(records.size))
    assert records.read_into(data, 0) == len(data)
    return data


def fetch(leader: Partition, follower: Partition) -> None:
    """One fetch of the follower: the response has the high watermark of before it."""
    high_watermark, offset = leader.high_watermark, follower.end_offset
    records = leader.read(offset, 1 << 20, leader.bound(FOLLOWER))
    leader.follower_fetched(FOLLOWER, offset, 0.0)
    follower.append_from_leader(bytes_of(records), high_watermark)


def state(leader: Partition, follower: Partition) -> tuple[int, int, int, int]:
    return (
        leader.end_offset,
        leader.high_watermark,
        follower.end_offset,
        follower.high_watermark,
    )


def test_one_record_is_committed_in_four_steps(replicas: tuple[Partition, Partition]) -> None:
    leader, follower = replicas
    assert state(leader, follower) == (0, 0, 0, 0)
    produce(leader)
    assert state(leader, follower) == (1, 0, 0, 0)
    fetch(leader, follower)
    assert state(leader, follower) == (1, 0, 1, 0)
    assert leader.bound() == 0  # nobody may read it yet
    # The follower says that it has it; the response still says what was so before.
    fetch(leader, follower)
    assert state(leader, follower) == (1, 1, 1, 0)
    fetch(leader, follower)
    assert state(leader, follower) == (1, 1, 1, 1)


def test_consumers_read_below_the_high_watermark_and_followers_to_the_end(
    replicas: tuple[Partition, Partition],
) -> None:
    leader, follower = replicas
    produce(leader, 3)
    fetch(leader, follower)
    fetch(leader, follower)
    produce(leader, 2)
    assert [leader.bound(replica_id) for replica_id in (-1, -2, -3, FOLLOWER)] == [3, 3, 5, 5]
    assert leader.bound(committed=True) == 3


def test_a_lone_replica_s_high_watermark_is_its_end(logs: list[Log]) -> None:
    partition = Partition(TopicPartition("t", 0), logs[0], LEADER, set())
    produce(partition, 3)
    assert partition.high_watermark == 3
    assert not partition.follower_fetched(FOLLOWER, 3, 0.0)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, None),
        (5, None),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_client_that_knows_another_epoch_is_turned_away(
    logs: list[Log], epoch: int, code: ErrorCode | None
) -> None:
    partition = Partition(TopicPartition("t", 0), logs[0], LEADER, set())
    partition.assign(leadership(epoch=5), 0.0)
    try:
        partition.check(epoch, leader=True)
        found = None
    except ApiError as error:
        found = error.code
    assert found == code


def test_a_follower_neither_appends_nor_hears_of_followers(
    replicas: tuple[Partition, Partition],
) -> None:
    _, follower = replicas
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        produce(follower)
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        follower.follower_fetched(LEADER, 0, 0.0)
    follower.check(-1, leader=False)


def test_a_broker_without_a_replica_does_not_count(replicas: tuple[Partition, Partition]) -> None:
    leader, _ = replicas
    with pytest.raises(ApiError, match="broker 7 has no replica") as caught:
        leader.follower_fetched(7, 0, 0.0)
    assert caught.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("shift", [-3_600, 0, 3_600])
def test_a_replica_lags_by_the_brokers_clock_whatever_the_time_of_day(
    logs: list[Log], shift: int
) -> None:
    """The high watermark waits for a replica outside of the ISR for as long as it may join."""
    leader = Partition(TopicPartition("t", 0), logs[LEADER], LEADER, set())
    leader.assign(replace(leadership(), isr=frozenset({LEADER})), 1_000.0, lag_max=30.0)
    produce(leader)
    leader.follower_fetched(FOLLOWER, 1, 1_000.0)
    for now, high_watermark in ((1_010.0, 1), (1_031.0, 3)):
        produce(leader, now=now, time=int(1_000 * (now + shift)))
        assert leader.high_watermark == high_watermark


def test_a_new_leaders_high_watermark_is_uncertain_until_its_followers_have_caught_up(
    replicas: tuple[Partition, Partition],
) -> None:
    old, new = replicas
    produce(old, 4)
    fetch(old, new)
    assert old.is_high_watermark_certain
    new.assign(leadership(epoch=2, version=2, leader=FOLLOWER), 0.0)
    assert not new.is_high_watermark_certain
    new.follower_fetched(LEADER, 4, 0.0)
    assert (new.high_watermark, new.is_high_watermark_certain) == (4, True)


def test_an_old_leader_truncates_unreplicated_records_and_follows(
    replicas: tuple[Partition, Partition],
) -> None:
    old, new = replicas
    produce(old, 4)
    fetch(old, new)
    produce(old, 3)
    for partition in replicas:
        partition.assign(leadership(epoch=2, version=2, leader=FOLLOWER), 0.0)
    produce(new, 2)
    assert (old.end_offset, new.end_offset) == (7, 6)
    parted = new.divergence(old.end_offset, 1)
    assert parted == EpochEnd(1, 4)
    assert old.truncate(parted) == 4
    assert new.divergence(4, 1) is None


def test_batches_of_a_later_epoch_are_left_until_that_epoch_is_known(
    replicas: tuple[Partition, Partition],
) -> None:
    leader, follower = replicas
    produce(leader, 2)
    leader.assign(leadership(epoch=2, version=2), 0.0)
    produce(leader, 2)
    records = leader.read(0, 1 << 20, 4)
    data = bytes_of(records)
    assert follower.append_from_leader(data, 0) == 2
    follower.assign(leadership(epoch=2, version=2), 0.0)
    assert follower.append_from_leader(data[len(data) // 2 :], 0) == 4


def test_a_batch_cut_short_is_left_for_the_next_fetch(
    replicas: tuple[Partition, Partition],
) -> None:
    leader, follower = replicas
    produce(leader, 2)
    produce(leader, 2)
    records = leader.read(0, 1 << 20, 4)
    data = bytes_of(records)
    assert follower.append_from_leader(data[:-1], 0) == 2


def test_old_news_of_the_controller_changes_nothing(replicas: tuple[Partition, Partition]) -> None:
    leader, _ = replicas
    leader.assign(leadership(epoch=3, version=4), 0.0)
    leader.assign(leadership(epoch=2, version=3, leader=FOLLOWER), 0.0)
    assert (leader.leader, leader.leader_epoch) == (LEADER, 3)


def test_a_noted_high_watermark_counts_as_far_as_the_log_goes(logs: list[Log]) -> None:
    logs[0].writer.append(batch(0, 1))
    partition = Partition(TopicPartition("t", 0), logs[0], LEADER, set())
    partition.await_controller(7)
    partition.assign(leadership(), 0.0)
    assert partition.high_watermark == 2


def test_a_restarted_broker_leads_nothing_until_the_controller_decides(logs: list[Log]) -> None:
    logs[0].writer.append(batch(0, 1))
    partition = Partition(TopicPartition("t", 0), logs[0], LEADER, set())
    partition.await_controller(1)
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        produce(partition)
    assert partition.high_watermark == 1  # not what it has alone
    partition.assign(leadership(), 0.0)
    produce(partition)
    assert (partition.end_offset, partition.high_watermark) == (3, 1)


def test_epochs_continue_after_those_of_the_log(logs: list[Log]) -> None:
    logs[0].writer.begin_epoch(9)
    assert Partition(TopicPartition("t", 0), logs[0], LEADER, set()).leader_epoch == 9


def idempotent(sequence: int, epoch: int) -> bytes:
    records = [Record(number, 1000, TimestampType.CREATE, b"k") for number in range(2)]
    return build(records, magic=V2, producer_id=5, producer_epoch=epoch, base_sequence=sequence)


def send(partition: Partition, data: bytes) -> int:
    """The first offset of a producer's batch, which may be there already."""
    prepared = prepare(memoryview(data), CONFIG, 1)
    assert prepared is not None
    return partition.append(prepared, 0.0, 1).base_offset


def test_after_a_truncation_the_new_leaders_batches_are_known_and_not_those_cut_off(
    replicas: tuple[Partition, Partition],
) -> None:
    """Both end at the same offset, and are of the same producer."""
    old, new = replicas
    assert send(old, idempotent(0, 0)) == 0
    fetch(old, new)
    assert send(old, idempotent(2, 0)) == 2
    for partition in replicas:
        partition.assign(leadership(epoch=2, version=2, leader=FOLLOWER), 0.0)
    assert send(new, idempotent(0, 1)) == 2
    parted = new.divergence(old.end_offset, 1)
    assert parted == EpochEnd(1, 2)
    assert old.truncate(parted) == 2
    old.append_from_leader(bytes_of(new.read(2, 1 << 20, new.bound(LEADER))), 0)
    for partition in replicas:
        partition.assign(leadership(epoch=3, version=3), 0.0)
    assert send(old, idempotent(0, 1)) == 2
    assert send(old, idempotent(2, 1)) == 4


def test_a_replica_that_starts_again_knows_no_batch_from_before(
    replicas: tuple[Partition, Partition],
) -> None:
    old, new = replicas
    assert send(old, idempotent(0, 0)) == 0
    for partition in replicas:
        partition.assign(leadership(epoch=2, version=2, leader=FOLLOWER), 0.0)
    assert send(new, idempotent(0, 1)) == 0
    old.restart_at(0)
    old.append_from_leader(bytes_of(new.read(0, 1 << 20, new.bound(LEADER))), 0)
    for partition in replicas:
        partition.assign(leadership(epoch=3, version=3), 0.0)
    assert send(old, idempotent(0, 1)) == 0


def test_a_follower_deletes_its_leaders_deleted_records_up_to_the_high_watermark(
    replicas: tuple[Partition, Partition],
) -> None:
    leader, follower = replicas
    produce(leader, 3)
    fetch(leader, follower)
    fetch(leader, follower)
    fetch(leader, follower)
    produce(leader, 2)
    fetch(leader, follower)
    assert (follower.end_offset, follower.high_watermark) == (5, 3)
    follower.follow_start(5)
    assert follower.start_offset == 3
