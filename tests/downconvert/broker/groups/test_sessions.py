"""A member stays in its group while it sends heartbeats, and rejoins in a rebalance."""

import pytest

from downconvert.broker import ErrorCode
from downconvert.broker.groups.group import Group
from downconvert.broker.groups.rebalance import GroupLimits, State
from downconvert.internal_topics.group_records import StoredGroup, StoredMember

from .test_between_steps import come_back, stable
from .test_group import DELAY, REBALANCE, SESSION, Someone, ask, group_of, joining, run, sync

LATE = 6.0 + SESSION + 1  # `stable` ends at 6 seconds


@pytest.mark.parametrize("commits", [False, True])
def test_a_commit_or_a_repeated_request_for_an_assignment_is_a_sign_of_life(commits: bool) -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = stable(leader, follower)
    group.heartbeat(leader.identity, 15.0)
    if commits:
        assert group.check_commit(follower.identity, 15.0) is ErrorCode.NONE
    else:
        sync(group, follower, 15.0)
    group.advance(LATE)
    assert (group.state, len(group.members)) == (State.STABLE, 2)


def test_a_member_that_learns_of_a_rebalance_has_a_session_to_join() -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = group_of(leader, follower, now=0.0)
    sync(group, follower, 6.0)
    assert follower.synced is None  # it waits for the leader
    come_back(leader, protocols=(("range", b"changed"),))
    ask(group, leader, 7.0)
    assert follower.synced is not None
    assert follower.synced.code is ErrorCode.REBALANCE_IN_PROGRESS  # type: ignore[unreachable]
    group.advance(7.0 + SESSION - 0.1)
    assert len(group.members) == 2
    group.advance(7.0 + SESSION)
    run(group)
    assert (group.state, list(group.members)) == (State.COMPLETING, [leader.identity.member_id])


def test_a_static_member_that_is_away_keeps_its_place_in_a_rebalance() -> None:
    leader = Someone(joining())
    away = Someone(joining(instance_id="i", session_timeout=10 * REBALANCE))
    silent = Someone(joining(session_timeout=10 * REBALANCE))
    group = stable(leader, away, silent)
    come_back(leader, protocols=(("range", b"changed"),))
    ask(group, leader, 7.0)
    group.advance(7.0 + REBALANCE)
    run(group)
    assert (group.state, group.generation) == (State.COMPLETING, 2)
    assert set(group.members) == {leader.identity.member_id, away.identity.member_id}


def test_a_first_generation_waits_for_a_rebalance_timeout_at_most() -> None:
    group = Group("g", GroupLimits(initial_delay=DELAY), lambda _group, _now: ErrorCode.NONE)
    now = 0.0
    while now < REBALANCE:
        ask(group, Someone(joining()), now)
        group.advance(now)
        assert group.state is State.PREPARING, now
        now += 0.5
    group.advance(REBALANCE)
    assert group.state is State.COMPLETING


def test_a_new_id_that_leaves_before_it_joins_delays_no_rebalance() -> None:
    leader, newcomer = Someone(joining()), Someone(joining(needs_known_id=True))
    group = stable(leader)
    ask(group, newcomer, 7.0)
    come_back(leader, protocols=(("range", b"changed"),))
    ask(group, leader, 8.0)
    assert group.state is State.PREPARING
    assert newcomer.joined is not None
    assert group.leave(newcomer.joined.member_id, None, 9.0) is ErrorCode.NONE
    run(group)
    assert (group.state, group.generation) == (State.COMPLETING, 2)


def test_a_static_member_that_led_leads_when_it_has_started_again() -> None:
    leader, follower = Someone(joining(instance_id="i")), Someone(joining())
    group = stable(leader, follower)
    again = Someone(joining(instance_id="i"))
    ask(group, again, 7.0)
    assert group.leader == again.identity.member_id


def test_after_a_restart_the_member_that_led_leads() -> None:
    members = tuple(
        StoredMember(
            id=name,
            instance_id=None,
            client_id="c",
            client_host="h",
            rebalance_timeout_ms=20_000,
            session_timeout_ms=10_000,
            subscription=b"s",
            assignment=b"a",
        )
        for name in ("first", "second")
    )
    group = Group("g", GroupLimits(), lambda _group, _now: ErrorCode.NONE)
    group.restore(StoredGroup("consumer", 7, "range", "second", -1, members), 0.0)
    assert (group.leader, group.generation, group.state) == ("second", 7, State.STABLE)
