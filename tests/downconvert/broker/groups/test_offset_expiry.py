"""Offsets go when they have been kept for long enough, and groups with the last of them."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from downconvert.broker.groups.group import Group
from downconvert.broker.groups.member import Join
from downconvert.broker.groups.offset_expiry import expired
from downconvert.broker.groups.rebalance import GroupLimits, State
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.internal_topics.group_records import NO_TIME, Committed, StoredGroup, StoredMember
from downconvert.protocol.consumer_protocol import Subscription, write_subscription
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask
from tests.downconvert.broker.offset_logs import (
    COMMIT,
    commit,
    commit_to,
    end,
    fetch,
    make_offsets,
    offsets_log,
)
from tests.downconvert.broker.writable import writable_broker

AT, OTHER = ("t", 0), ("u", 0)
RETENTION = 100.0  # seconds
MINUTE, DAY = 60.0, 86_400.0
COMMITTED_AT = 1000.0  # seconds, where nothing else is said


def group(*topics: str, kind: str = "consumer", empty_since: float | None = None) -> Group:
    """A stable group whose members read these topics; without topics, a group without members."""
    made = Group("g", GroupLimits(), lambda *_: ErrorCode.NONE)
    data = write_subscription(Subscription(topics))
    member = StoredMember("m", None, "", "", 10_000, 10_000, data, b"")
    time = NO_TIME if empty_since is None else int(empty_since * 1000)
    members = (member,) if topics else ()
    made.restore(StoredGroup(kind, 1, "range" if topics else None, "m", time, members), 0.0)
    return made


def committed(at: float = COMMITTED_AT, *, until: int = NO_TIME) -> Committed:
    return Committed(7, commit_time=int(at * 1000), expire_time=until)


@pytest.mark.parametrize(
    ("of", "old", "when"),
    [
        (group(kind=""), [AT, OTHER], COMMITTED_AT + RETENTION),  # no group is kept with them
        (group(empty_since=1500.0), [AT, OTHER], 1500.0 + RETENTION),
        (group(), [AT, OTHER], COMMITTED_AT + RETENTION),  # it is not known since when
        (group("t"), [OTHER], COMMITTED_AT + RETENTION),
        (group("t", "u"), [], 1e9),
        (group("x"), [AT, OTHER], COMMITTED_AT + RETENTION),
        (group("x", kind="connect"), [], 1e9),
    ],
)
def test_offsets_expire_after_the_retention(
    of: Group, old: list[tuple[str, int]], when: float
) -> None:
    offsets = {AT: committed(), OTHER: committed()}
    assert expired(of, offsets, when - 1, RETENTION) == []
    assert expired(of, offsets, when, RETENTION) == old


def test_a_commit_with_an_expiry_time_is_kept_until_then() -> None:
    offsets = {AT: committed(until=5_000_000), OTHER: committed()}
    assert expired(group(kind=""), offsets, 4_000.0, RETENTION) == [OTHER]
    assert expired(group(kind=""), offsets, 5_000.0, RETENTION) == [AT, OTHER]


def test_no_offset_expires_while_members_join_or_their_topics_are_unknown() -> None:
    joining = group("x")
    second = Join(
        protocol_type="consumer",
        protocols=joining.members["m"].protocols,
        session_timeout=10.0,
        rebalance_timeout=10.0,
    )
    joining.join(second, 0.0, lambda _joined: None)
    assert joining.state is State.PREPARING
    assert expired(joining, {AT: committed()}, 1e9, RETENTION) == []
    strange = group("x")
    member = strange.members["m"]
    member.protocols = (("range", b"?"),)
    assert expired(strange, {AT: committed()}, 1e9, RETENTION) == []


def test_old_offsets_go_by_themselves_and_for_good(tmp_path: Path) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path, offsets_retention_minutes=60) as broker:
        commit(broker, 7)  # at 1000 seconds
        commit(broker, 7, "h")
        due = broker.tick(1000.0)
        assert due == 1000.0 + 10 * MINUTE
        while due is not None and due < 1000.0 + 60 * MINUTE:
            due = broker.tick(due)
        assert fetch(broker) == (7, 0)
        while due is not None:
            due = broker.tick(due)  # until there is nothing left to be looked at
        assert broker.groups.manager.ids() == []
    with writable_broker(tmp_path) as broker:
        assert broker.groups.manager.ids() == []


def test_old_offsets_go_though_a_defect_kept_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path, offsets_retention_minutes=60) as broker:
        commit(broker, 7)
        with monkeypatch.context() as failing:
            failing.setattr(
                broker.groups.manager, "expire", Mock(side_effect=RuntimeError("a defect"))
            )
            with pytest.raises(RuntimeError, match="a defect"):
                broker.tick(1000.0 + 70 * MINUTE)
        broker.tick(1000.0 + 80 * MINUTE)
        assert broker.groups.manager.ids() == []


@pytest.mark.parametrize("shift", [0.0, -DAY, DAY])
def test_a_group_without_members_and_offsets_is_forgotten(tmp_path: Path, shift: float) -> None:
    """An hour later, whatever the system's clock was set to before."""
    with writable_broker(
        tmp_path, "t", group_initial_rebalance_delay_ms=0, offsets_retention_minutes=60
    ) as broker:
        broker.time_of_day.shift = shift
        joining = Message(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[Message(name="range", metadata=b"")],
        )
        joined = ask(broker, ApiKey.JoinGroup, 3, joining)
        leaving = Message(group_id="g", member_id=joined.member_id)
        assert ask(broker, ApiKey.LeaveGroup, 1, leaving).error_code == 0
        assert commit(broker, 7) == 0  # at 1000 seconds, but the group is empty since 0
        broker.groups.manager.expire(59 * MINUTE)
        assert broker.groups.manager.ids() == ["g"]
        broker.groups.manager.expire(60 * MINUTE)
        assert broker.groups.manager.ids() == []
        log = broker.topics[OFFSETS_TOPIC].partitions[0].log
        assert [record.value for record in log.records()][-2:] == [None, None]


def test_offsets_in_an_open_transaction_do_not_expire(tmp_path: Path) -> None:
    make_offsets(tmp_path, 0)
    with writable_broker(tmp_path) as broker:
        log = offsets_log(broker)
        commit_to(log, 5)
        commit_to(log, 6, producer=1)
    with writable_broker(tmp_path) as broker:
        broker.groups.manager.expire(10 * DAY)
        assert fetch(broker) == (5, 0)
        end(offsets_log(broker), COMMIT, producer=1)
    with writable_broker(tmp_path) as broker:
        assert fetch(broker) == (6, 0)
        broker.groups.manager.expire(10 * DAY)
        assert fetch(broker) == (-1, 0)
