"""Timers and responses of a group, one rule at a time, while a generation begins, lasts and ends.

Not here: how clients become members (test_joining.py), what keeps one (test_sessions.py)."""

import pytest

from downconvert.broker import ErrorCode
from downconvert.broker.groups.group import Group
from downconvert.broker.groups.member import MemberIdentity, Synced
from downconvert.broker.groups.rebalance import GroupLimits, State
from downconvert.internal_topics.group_records import StoredGroup, StoredMember

from .test_between_steps import come_back, stable
from .test_group import (
    DELAY,
    REBALANCE,
    SESSION,
    Someone,
    ask,
    assigned_in_vain,
    group_of,
    joining,
    run,
    sync,
)

CHANGED = (("range", b"changed"),)


def asked(group: Group, identity: MemberIdentity, now: float, **fields: str) -> ErrorCode | None:
    """How a request for an assignment is answered; None: it waits."""
    found: list[Synced] = []
    group.sync(identity, {}, now, found.append, **fields)
    run(group)
    return found[0].code if found else None


def test_a_member_of_another_generation_learns_that_first() -> None:
    leader, other = Someone(joining()), Someone(joining())
    group = stable(leader, other)
    come_back(leader, protocols=CHANGED)
    ask(group, leader, 7.0)
    member = other.identity.member_id
    assert asked(group, MemberIdentity(member, 0), 8.0) is ErrorCode.ILLEGAL_GENERATION
    assert asked(group, MemberIdentity("none", 1), 8.0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert asked(group, MemberIdentity(member, 1), 8.0) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_is_of_the_groups_type_and_protocol() -> None:
    leader = Someone(joining())
    group = stable(leader)
    who = leader.identity
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert asked(group, who, 7.0, protocol_type="connect") is code
    assert asked(group, who, 7.0, protocol="sticky") is code
    assert asked(group, who, 7.0, protocol_type="consumer", protocol="range") is ErrorCode.NONE


def test_nobody_is_put_out_while_the_leader_assigns() -> None:
    leader, follower = Someone(joining(session_timeout=15.0)), Someone(joining())
    group = group_of(leader, follower, now=0.0)
    assert asked(group, follower.identity, 6.5) is None
    group.heartbeat(leader.identity, 10.0)
    group.advance(6.5 + SESSION)
    assert (group.state, len(group.members)) == (State.COMPLETING, 2)


def test_a_session_begins_with_each_response() -> None:
    leader, follower = Someone(joining()), Someone(joining(session_timeout=12.0))
    group = group_of(leader, follower, now=0.0)
    assert group.next_deadline() == 2 * DELAY + SESSION
    for person in (follower, leader):
        sync(group, person, 8.0)
    group.heartbeat(leader.identity, 15.0)
    assert group.next_deadline() == 8.0 + 12.0


def test_a_session_begins_with_an_assignment_that_failed() -> None:
    leader, follower = Someone(joining()), Someone(joining(session_timeout=12.0))
    group = assigned_in_vain(leader, follower)
    group.heartbeat(leader.identity, 10.0)
    assert group.next_deadline() == 7.0 + 12.0


def test_a_member_without_an_assignment_keeps_no_old_one() -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = stable(leader, follower)
    come_back(leader, protocols=CHANGED)
    ask(group, leader, 7.0)
    come_back(follower)
    ask(group, follower, 7.0)
    sync(group, follower, 8.0)
    given = {leader.identity.member_id: b"all"}
    group.sync(leader.identity, given, 8.0, lambda response: setattr(leader, "synced", response))
    run(group)
    assert (leader.synced, follower.synced) != (None, None)
    assert [one.synced.assignment for one in (leader, follower) if one.synced] == [b"all", b""]


def test_a_static_member_that_is_removed_while_it_waits_learns_it() -> None:
    leader, static = Someone(joining()), Someone(joining(instance_id="i"))
    group = group_of(leader, static, now=0.0)
    sync(group, static, 6.0)
    assert static.synced is None
    assert group.leave("", "i", 7.0) is ErrorCode.NONE
    run(group)
    assert static.synced is not None
    assert static.synced.code is ErrorCode.UNKNOWN_MEMBER_ID  # type: ignore[unreachable]


def test_an_empty_group_is_stored_without_a_protocol() -> None:
    stored: list[tuple[int, str | None]] = []

    def store(group: Group, _now: float) -> ErrorCode:
        stored.append((group.generation, group.protocol))
        return ErrorCode.NONE

    group, leader = Group("g", GroupLimits(initial_delay=DELAY), store), Someone(joining())
    ask(group, leader, 0.0)
    group.advance(DELAY)
    run(group)
    sync(group, leader, 6.0)
    group.leave(leader.identity.member_id, None, 7.0)
    assert stored == [(1, "range"), (2, None)]


def test_each_step_of_a_rebalance_allows_its_commits_only() -> None:
    leader, static = Someone(joining()), Someone(joining(instance_id="i"))
    group = group_of(leader, static, now=0.0)
    assert group.check_commit(leader.identity, 6.0) is ErrorCode.REBALANCE_IN_PROGRESS
    for person in (leader, static):
        sync(group, person, 6.0)
    nobody = MemberIdentity("", -1)
    assert group.check_commit(nobody, 6.0) is ErrorCode.UNKNOWN_MEMBER_ID
    instance = MemberIdentity("", -1, "i")
    assert group.check_commit(instance, 6.0) is ErrorCode.FENCED_INSTANCE_ID
    unnamed = MemberIdentity("", 1)
    assert group.check_commit_in_transaction(unnamed) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_commit_in_transaction(nobody) is ErrorCode.NONE
    come_back(leader, protocols=CHANGED)
    ask(group, leader, 7.0)
    assert group.state is State.PREPARING
    assert group.check_commit(static.identity, 7.0) is ErrorCode.NONE


def test_without_members_anybody_without_a_generation_may_commit() -> None:
    group = Group("g", GroupLimits(), lambda _group, _now: ErrorCode.NONE)
    for identity in (MemberIdentity("gone", -1), MemberIdentity("gone", -1, "i")):
        assert group.check_commit(identity, 6.0) is ErrorCode.NONE
        assert group.check_commit_in_transaction(identity) is ErrorCode.NONE


def test_a_member_is_stored_and_restored_with_all_that_it_said() -> None:
    stored = StoredMember("m", "i", "client", "/host", 11_000, 22_000, b"subscription", b"assigned")
    group = Group("g", GroupLimits(), lambda _group, _now: ErrorCode.NONE)
    group.restore(StoredGroup("consumer", 7, "range", "m", 5, (stored,)), 100.0)
    (member,) = group.members.values()
    assert member.stored("range") == stored
    assert (member.session_timeout, member.rebalance_timeout) == (11.0, 22.0)
    assert group.next_deadline() == 111.0


def test_a_restored_member_that_joins_again_waits_however_long_that_takes() -> None:
    stored = [
        StoredMember(name, None, "c", "/h", 900_000, 900_000, b"s", b"a") for name in ("m", "n")
    ]
    group = Group("g", GroupLimits(), lambda _group, _now: ErrorCode.NONE)
    group.restore(StoredGroup("consumer", 7, "range", "m", 5, tuple(stored)), 0.0)
    again = Someone(joining(member_id="m", rebalance_timeout=900.0, session_timeout=900.0))
    ask(group, again, 1.0)
    for now in range(5, 600, 5):
        group.heartbeat(MemberIdentity("n", 7), float(now))
        group.advance(float(now))
    assert (group.state, set(group.members)) == (State.PREPARING, {"m", "n"})
    assert REBALANCE < 600


@pytest.mark.parametrize(
    ("names", "restored"),
    [
        ([("m", None), ("m", None)], {"m"}),
        ([("m", "i"), ("n", "i")], {"n"}),
        ([("m", "i"), ("m", "j"), ("n", None)], {"m", "n"}),
        ([("m", None), ("n", "m")], {"m", "n"}),  # an instance id is no member id
    ],
)
def test_a_damaged_group_has_each_id_and_each_instance_once(
    names: list[tuple[str, str | None]], restored: set[str]
) -> None:
    stored = [StoredMember(*name, "c", "/h", 10_000, 10_000, b"s", b"a") for name in names]
    group = Group("g", GroupLimits(), lambda _group, _now: ErrorCode.NONE)
    group.restore(StoredGroup("consumer", 7, "range", "m", 5, tuple(stored)), 0.0)
    assert set(group.members) == restored
    ask(group, Someone(joining()), 1.0)
    for now in (20.0, 2000.0, 4000.0):
        group.advance(now)
    assert (group.state, len(group.members)) == (State.EMPTY, 0)


def test_generations_begin_again_behind_the_last_number() -> None:
    group = Group("g", GroupLimits(initial_delay=0.0), lambda _group, _now: ErrorCode.NONE)
    group.restore(StoredGroup("consumer", 2**31 - 1, None, None, 5), 0.0)
    ask(group, Someone(joining()), 1.0)
    group.advance(1.0)
    assert (group.state, group.generation) == (State.COMPLETING, 1)
