"""The state of a partition changes whenever a read may have another result: state by state."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.fetch.idle import IdleLook, IdleStates
from downconvert.broker.fetch.session import Asked, Idle
from downconvert.broker.partition import Partition
from downconvert.storage import LogDir
from downconvert.storage.names import LOG_STARTS
from tests.downconvert.broker.writable import writable_broker
from tests.downconvert.storage.logs import batch

REQUEST = (11, False)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Broker]:
    with writable_broker(tmp_path, "t", partitions=3) as broker:
        (tmp_path / LOG_STARTS).write_text("0\n0\n")
        yield broker


@pytest.fixture
def broker(owner: Broker) -> Iterator[Broker]:
    """It reads the directory that the owner writes."""
    with LogDir.open(owner.topics.log_dir.path) as log_dir:
        yield Broker(log_dir, BrokerConfig())


@pytest.fixture
def later() -> float:
    """All files are old by then."""
    return time.time() + 60


def state(broker: Broker, partition: Partition, now: float) -> tuple[object, ...]:
    (found,) = IdleStates(broker.topics, now).of([partition])
    return found


def of(broker: Broker, index: int = 0) -> Partition:
    return broker.topics["t"].partitions[index]


CHANGES: dict[str, Callable[[Broker, Path], None]] = {
    "the high watermark": lambda broker, _: setattr(of(broker), "committed_end", 7),
    "the leader": lambda broker, _: setattr(of(broker), "leader", 99),
    "the leader's epoch": lambda broker, _: setattr(of(broker), "leader_epoch", 99),
    "the start offsets": lambda _, path: (path / LOG_STARTS).unlink(),
    "a file of the partition": lambda _, path: (path / "t-0" / "more").touch(),
    "the last segment": lambda _, path: os.truncate(path / "t-0" / f"{0:020}.log", 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_followed_partition_is_another_state(
    change: Callable[[Broker, Path], None], broker: Broker, tmp_path: Path, later: float
) -> None:
    known = IdleStates(broker.topics, later).new(of(broker))
    assert known is not None
    assert state(broker, of(broker), later) == known
    change(broker, tmp_path)
    assert state(broker, of(broker), later) != known


def test_the_state_of_a_partition_without_a_file_is_unknown(
    broker: Broker, tmp_path: Path, later: float
) -> None:
    (tmp_path / "t-0" / f"{0:020}.log").unlink()
    assert IdleStates(broker.topics, later).new(of(broker)) is None
    assert IdleStates(broker.topics, later).new(of(broker, 1)) is not None


def test_start_offsets_that_may_be_changing_make_a_state_unknown(
    broker: Broker, tmp_path: Path
) -> None:
    for path in (tmp_path / "t-0", tmp_path / "t-0" / f"{0:020}.log", tmp_path / LOG_STARTS):
        os.utime(path, (0, 0))
    now = time.time()
    assert IdleStates(broker.topics, now).new(of(broker)) is not None
    os.utime(tmp_path / LOG_STARTS)
    assert IdleStates(broker.topics, now).new(of(broker)) is None


@pytest.mark.parametrize("changed", ["t-0", f"t-0/{0:020}.log", LOG_STARTS])
def test_a_file_is_settled_three_seconds_after_a_change(
    broker: Broker, tmp_path: Path, changed: str
) -> None:
    """The coarsest clocks of file systems tick every two seconds."""
    for name in ("t-0", f"t-0/{0:020}.log", LOG_STARTS):
        at = 1000 if name == changed else 500
        os.utime(tmp_path / name, (at, at))
    for now, is_settled in ((1000.0, False), (1002.5, False), (1003.0, True), (2000.0, True)):
        assert (IdleStates(broker.topics, now).new(of(broker)) is not None) is is_settled


def look(broker: Broker, now: float, **fields: Any) -> IdleLook:
    context: Any = SimpleNamespace(
        asked=[],
        is_session=fields.pop("is_session", True),
        skips_idle=fields.pop("skips_idle", True),
    )
    return IdleLook(broker.topics, context, REQUEST, now, **{"is_follower": False} | fields)


def asked(broker: Broker, index: int, known: Partition, now: float) -> Asked:
    """A partition, as if nothing had been found in the known one."""
    found = Asked("t", index, 0, 2**20, -1, -1, -1)
    found.idle = Idle(known, REQUEST, state(broker, known, now), known.leader_epoch)
    return found


def test_each_partition_is_idle_by_its_own_state(owner: Broker, later: float) -> None:
    same, other = (asked(owner, index, of(owner, 1), later) for index in (1, 2))
    assert look(owner, later).split([same, other]) == ([other], [same])


@pytest.mark.parametrize("fields", [{"is_follower": True}, {"skips_idle": False}])
def test_partitions_of_followers_and_of_whole_responses_are_all_read(
    fields: dict[str, bool], owner: Broker, later: float
) -> None:
    one = asked(owner, 1, of(owner, 1), later)
    assert look(owner, later, **fields).split([one]) == ([one], [])


@pytest.mark.parametrize("fields", [{"is_follower": True}, {"is_session": False}])
def test_nothing_is_remembered_for_followers_and_single_requests(
    fields: dict[str, bool], owner: Broker, later: float
) -> None:
    found = look(owner, later).before(of(owner))
    assert found == Idle(of(owner), REQUEST, state(owner, of(owner), later), of(owner).leader_epoch)
    assert look(owner, later, **fields).before(of(owner)) is None


def test_a_look_at_what_was_written_here_leaves_out_the_logs_of_others(
    owner: Broker, broker: Broker, later: float
) -> None:
    for one, found in ((owner, [True, True]), (broker, [True, False])):
        partition = of(one)
        assert IdleStates(one.topics, later).new(partition) is not None
        known = asked(one, 0, partition, later)
        partition.leader_epoch += 1
        for written_here, is_found in zip((False, True), found, strict=True):
            changed = look(one, later).changed([known], written_here=written_here)
            assert changed == ([(known, known.idle)] if is_found else [])


def test_a_partition_that_has_not_changed_is_not_looked_at(owner: Broker, later: float) -> None:
    one = asked(owner, 0, of(owner), later)
    assert look(owner, later).changed([one]) == []
    of(owner).log.writer.append(batch(0))
    assert look(owner, later).changed([one]) == [(one, one.idle)]
