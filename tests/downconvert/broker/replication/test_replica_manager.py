"""A broker's replicas: whom it follows, what it proposes, and what it remembers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.partition import Partition
from downconvert.broker.replication.replica import Leadership
from downconvert.broker.replication.replica_manager import Replication
from downconvert.storage import CorruptFileError, LogDir, TopicPartition
from tests.downconvert.broker.test_partition import produce

ME = 5
NAMES = [TopicPartition("s", 0), TopicPartition("t", 0), TopicPartition("t", 1)]
NOW = 1000.0


def led_by(leader: int | None, version: int = 1, replicas: Sequence[int] = (ME, 6)) -> Leadership:
    both = frozenset(replicas)
    return Leadership(
        leader=leader,
        leader_epoch=version,
        replicas=tuple(replicas),
        isr=both,
        alive=both,
        version=version,
    )


class Waiting:
    """Notes how often it is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def is_due(self) -> bool:
        self.looks += 1
        return False

    def complete(self, now: float, *, timed_out: bool) -> None:
        """It never is."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with LogDir.open(tmp_path, writable=True) as log_dir:
        for name in NAMES:
            log_dir.logs.create(name)
        yield Broker(log_dir, BrokerConfig(node_id=ME, replica_lag_time_max_ms=20_000))


def of(broker: Broker, name: TopicPartition) -> Partition:
    found = broker.topics.partition(name.topic, name.partition)
    assert found is not None
    return found


def test_only_the_leaders_of_its_replicas_are_followed(broker: Broker) -> None:
    side = Replication(broker)
    side.register(70)
    side.assign(dict(zip(NAMES, map(led_by, (ME, 6, 7)), strict=True)), NOW)
    assert set(side.followers) == {6, 7}
    assert {one.broker_epoch for one in side.followers.values()} == {70}
    before = side.followers[6]
    side.assign({NAMES[2]: led_by(None, 2)}, NOW)
    assert side.followers == {6: before}  # with what it knows
    side.register(71)
    assert before.broker_epoch == 71
    side.assign({NAMES[1]: led_by(8, 2)}, NOW)
    assert set(side.followers) == {8}
    assert side.followers[8].broker_epoch == 71


def test_decisions_about_partitions_that_are_not_here_are_skipped(broker: Broker) -> None:
    side = Replication(broker)
    elsewhere = TopicPartition("u", 0), TopicPartition("t", 2)
    side.assign(dict.fromkeys([*elsewhere, NAMES[2]], led_by(6)), NOW)
    assert side.versions == {NAMES[0]: -1, NAMES[1]: -1, NAMES[2]: 1}
    assert set(side.followers) == {6}


def test_until_the_controller_decides_it_neither_leads_nor_follows(broker: Broker) -> None:
    assert of(broker, NAMES[0]).leader == ME  # as a broker by itself
    side = Replication(broker)
    assert [of(broker, name).leader for name in NAMES] == [None] * 3
    assert side.followers == {}


def test_a_decision_is_noticed_by_what_waits(broker: Broker) -> None:
    side = Replication(broker)
    waits = [Waiting() for _ in NAMES]
    for one, name in zip(waits, NAMES, strict=True):
        broker.purgatory.watch(one, [of(broker, name).key], NOW, NOW + 60, None)
    before = [one.looks for one in waits]
    side.assign({NAMES[1]: led_by(6)}, NOW)
    broker.tick(NOW)
    looks = [one.looks - was for one, was in zip(waits, before, strict=True)]
    assert looks[1] > 0
    assert (looks[0], looks[2]) == (0, 0)


def test_followers_that_the_controller_names_may_connect(broker: Broker) -> None:
    broker.guard = replace(
        broker.guard, access=replace(broker.guard.access, follower_ids=frozenset({3}))
    )
    side = Replication(broker)
    side.assign({NAMES[0]: led_by(ME), NAMES[1]: led_by(6, replicas=(ME, 6, 9))}, NOW)
    assert broker.guard.access.follower_ids == {3, ME, 6, 9}
    before = broker.guard
    side.assign({NAMES[0]: led_by(ME, 2)}, NOW)
    assert broker.guard is before
    side.assign({NAMES[0]: led_by(ME, 3, replicas=(ME, 4))}, NOW)
    assert broker.guard.access.follower_ids == {3, 4, ME, 6, 9}


def test_an_isr_is_proposed_where_a_follower_lags_for_too_long(broker: Broker) -> None:
    side = Replication(broker)
    side.assign(dict.fromkeys(NAMES[:2], led_by(ME)), NOW)
    of(broker, NAMES[0]).follower_fetched(6, 0, NOW)  # it has all that there is
    produce(of(broker, NAMES[1]))
    assert side.isr_changes(NOW + 20) == {}
    (found,) = side.isr_changes(NOW + 21).items()
    assert (found[0], found[1].isr) == (NAMES[1], {ME})
    assert side.isr_changes(NOW + 22) == {}  # it is pending


@pytest.mark.parametrize(("own", "expected"), [({}, 0), ({"min.insync.replicas": "1"}, 1)])
def test_a_topic_has_its_own_least_number_of_replicas_in_sync(
    own: dict[str, str], expected: int, tmp_path: Path
) -> None:
    with LogDir.open(tmp_path, writable=True) as log_dir:
        log_dir.logs.create(NAMES[0])
        broker = Broker(log_dir, BrokerConfig(node_id=ME, min_insync_replicas=2))
        broker.topics.configure("s", own)
        side = Replication(broker)
        partition = of(broker, NAMES[0])
        alone = replace(led_by(ME), isr=frozenset({ME}), alive=frozenset({ME}))
        side.assign({NAMES[0]: alone}, NOW)
        produce(partition)
        partition.follower_fetched(6, 0, NOW)
        assert partition.high_watermark == expected


def test_high_watermarks_that_were_noted_are_those_of_the_next_start(broker: Broker) -> None:
    side = Replication(broker)
    side.assign(dict.fromkeys(NAMES[:2], led_by(ME, replicas=(ME,))), NOW)
    produce(of(broker, NAMES[0]), 4)
    produce(of(broker, NAMES[1]), 2)
    side.note_high_watermarks()
    produce(of(broker, NAMES[1]), 3)
    Replication(broker)
    assert [of(broker, name).high_watermark for name in NAMES] == [4, 2, 0]


def test_damaged_notes_of_high_watermarks_are_those_of_a_first_start(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(of(broker, NAMES[0]), 4)

    def damaged(_: LogDir) -> None:
        raise CorruptFileError("no number", Path("replication-offset-checkpoint"))

    monkeypatch.setattr(LogDir, "high_watermarks", property(damaged))
    Replication(broker)
    assert of(broker, NAMES[0]).high_watermark == 0
