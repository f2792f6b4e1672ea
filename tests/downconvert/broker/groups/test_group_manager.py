"""The groups in memory: after a restart, after they are deleted, and while their timers run."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, BrokerConfig, ErrorCode
from downconvert.broker.groups.members import Members
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import ask, begin, response_of
from tests.downconvert.broker.offset_logs import commit, fetch
from tests.downconvert.broker.writable import writable_broker

from .test_coordinator import join


def test_groups_are_known_after_a_restart_by_their_offsets_alone(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t") as broker:
        commit(broker, 3, group="g")
        commit(broker, 4, group="h")
    with writable_broker(tmp_path) as broker:
        assert fetch(broker, "h") == (4, 0)
        assert broker.groups.manager.ids() == ["g", "h"]
        assert sorted(broker.groups.positions()) == [("g", "t", 0, 3), ("h", "t", 0, 4)]


def test_a_group_that_was_stored_and_is_deleted_is_gone(tmp_path: Path) -> None:
    options = {"group_initial_rebalance_delay_ms": 0}

    def state(broker: Broker) -> str:
        found = ask(broker, ApiKey.DescribeGroups, 4, Message(groups=["g"]), now=2.0).groups
        said: str = found[0].group_state
        return said

    with writable_broker(tmp_path, **options) as broker:
        first = join(broker, "g")
        again = join(broker, "g", member_id=first.member_id)
        assert again.generation_id == 1
        ask(broker, ApiKey.LeaveGroup, 1, Message(group_id="g", member_id=first.member_id))
    with writable_broker(tmp_path, **options) as broker:
        assert state(broker) == "Empty"
        deleting = Message(groups_names=["g"])
        (told,) = ask(broker, ApiKey.DeleteGroups, 2, deleting, now=2.0).results
        assert (told.error_code, state(broker), broker.groups.manager.ids()) == (0, "Dead", [])


def test_a_client_that_was_given_an_id_may_come_though_a_topic_is_deleted(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", group_initial_rebalance_delay_ms=0) as broker:
        first = join(broker, "g")
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        ask(broker, ApiKey.DeleteTopics, 1, Message(topic_names=["t"], timeout_ms=1000))
        again = join(broker, "g", member_id=first.member_id)
        assert (again.error_code, again.generation_id) == (0, 1)


def test_a_heartbeat_compares_no_other_members_timers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(LogDir.open(tmp_path), BrokerConfig(group_initial_rebalance_delay_ms=0))
    body = Message(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"")],
    )
    joined = response_of(begin(broker, ApiKey.JoinGroup, 3, body, now=0.0))
    member = Message(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[]
    )
    assert ask(broker, ApiKey.SyncGroup, 0, member, now=0.0).error_code == ErrorCode.NONE

    def beat(now: float) -> int:
        code: int = ask(broker, ApiKey.Heartbeat, 0, member, now=now).error_code
        return code

    looked: list[Members] = []
    deadlines = Members.deadlines

    def look(self: Members) -> list[float]:
        looked.append(self)
        return deadlines(self)

    monkeypatch.setattr(Members, "deadlines", look)
    assert beat(6.0) == ErrorCode.NONE
    assert looked == []
    broker.tick(10.0)  # when its session would have ended
    assert beat(15.0) == ErrorCode.NONE
    broker.tick(16.0)
    broker.tick(25.0)  # its session ends
    assert beat(25.0) == ErrorCode.UNKNOWN_MEMBER_ID
