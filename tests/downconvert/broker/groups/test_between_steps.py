"""A group survives events between two steps of its members: a time that runs out, a client that
starts again, a response that comes late, a restart.

Not here: whatever members do, in any order (test_group.py)."""

from pathlib import Path

import pytest

from downconvert.broker import Broker, ErrorCode
from downconvert.broker.groups.group import Group
from downconvert.broker.groups.joining import NEW_MEMBER_TIMEOUT
from downconvert.broker.groups.member import MemberIdentity
from downconvert.broker.groups.rebalance import GroupLimits, State
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import ask as ask_broker
from tests.downconvert.broker.writable import writable_broker

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


def stable(*people: Someone) -> Group:
    """A group whose members have asked for their assignments at 6 seconds."""
    group = group_of(*people, now=0.0)
    for person in people:
        sync(group, person, 6.0)
    assert (group.state, group.generation) == (State.STABLE, 1)
    return group


def come_back(person: Someone, **fields: object) -> None:
    """The next join is of the member that it is."""
    assert person.joined is not None
    person.join = joining(member_id=person.joined.member_id, **fields)


@pytest.mark.parametrize("generation", [0, 2, 99])
def test_a_request_of_another_generation_is_refused_also_of_one_to_come(generation: int) -> None:
    leader = Someone(joining())
    group = stable(leader)
    other = MemberIdentity(leader.identity.member_id, generation)
    assert group.heartbeat(other, 7.0) is ErrorCode.ILLEGAL_GENERATION
    assert group.check_commit(other, 7.0) is ErrorCode.ILLEGAL_GENERATION
    assert group.check_commit_in_transaction(other) is ErrorCode.ILLEGAL_GENERATION
    told: list[ErrorCode] = []
    group.sync(other, {}, 7.0, lambda response: told.append(response.code))
    run(group)
    assert told == [ErrorCode.ILLEGAL_GENERATION]


def test_a_rebalance_waits_for_new_ids_that_have_not_joined() -> None:
    leader, newcomer = Someone(joining()), Someone(joining(needs_known_id=True))
    group = stable(leader)
    ask(group, newcomer, 7.0)
    assert newcomer.joined is not None
    assert newcomer.joined.code is ErrorCode.MEMBER_ID_REQUIRED
    come_back(leader, protocols=(("range", b"changed"),))
    ask(group, leader, 8.0)
    assert (group.state, group.generation) == (State.PREPARING, 1)
    come_back(newcomer)
    ask(group, newcomer, 9.0)
    assert (group.state, group.generation, len(group.members)) == (State.COMPLETING, 2, 2)


def test_an_id_that_nobody_comes_back_with_holds_up_for_a_session_only() -> None:
    leader, newcomer = Someone(joining()), Someone(joining(needs_known_id=True))
    group = stable(leader)
    ask(group, newcomer, 7.0)
    come_back(leader, protocols=(("range", b"changed"),))
    ask(group, leader, 8.0)
    group.advance(7.0 + SESSION - 0.1)
    assert group.state is State.PREPARING
    group.advance(7.0 + SESSION)
    assert (group.state, group.generation, len(group.members)) == (State.COMPLETING, 2, 1)


def test_a_static_member_that_is_replaced_while_it_waits_learns_it() -> None:
    leader, before = Someone(joining()), Someone(joining(instance_id="i"))
    group = group_of(leader, before, now=0.0)
    sync(group, before, 6.0)
    assert before.synced is None  # it waits for the leader
    after = Someone(joining(instance_id="i"))
    ask(group, after, 7.0)
    assert before.synced is not None
    assert before.synced.code is ErrorCode.FENCED_INSTANCE_ID  # type: ignore[unreachable]


def test_a_static_member_that_is_replaced_while_it_joins_learns_it() -> None:
    leader, before = Someone(joining()), Someone(joining(instance_id="i"))
    group = stable(leader, before)
    come_back(before, instance_id="i", protocols=(("range", b"changed"),))
    before.joined = None
    group.join(before.join, 7.0, lambda response: setattr(before, "joined", response))
    run(group)
    assert before.joined is None  # it waits for the leader
    ask(group, Someone(joining(instance_id="i")), 8.0)
    assert before.joined is not None
    assert before.joined.code is ErrorCode.FENCED_INSTANCE_ID  # type: ignore[unreachable]


def test_the_time_to_ask_for_an_assignment_ends_with_its_generation() -> None:
    """A member that has joined the next one in time is not put out for what it did not ask in the
    last one."""
    leader, slow, last = (Someone(joining()) for _ in range(3))
    group = group_of(leader, slow, last, now=0.0)  # assignments may be asked for until 26
    come_back(leader, protocols=(("range", b"changed"),))
    ask(group, leader, 10.0)
    come_back(slow)
    ask(group, slow, 11.0)
    for now in (15.0, 22.0, 26.5):
        group.heartbeat(last.identity, now)
        group.advance(now)
    come_back(last)
    ask(group, last, 27.0)
    assert (group.state, group.generation, len(group.members)) == (State.COMPLETING, 2, 3)
    for now in (36.0, 45.0, 27.0 + REBALANCE - 0.1):
        for person in (leader, slow, last):
            group.heartbeat(person.identity, now)
        group.advance(now)
    assert len(group.members) == 3
    group.advance(27.0 + REBALANCE)
    assert len(group.members) == 0  # of this generation nobody has asked


def joined(broker: Broker, now: float) -> str:
    """The id of the group's only member, which is stable."""
    body = Message(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Message(name="range", metadata=b"")],
    )
    member: str = ask_broker(broker, ApiKey.JoinGroup, 3, body, now=now).member_id
    body = Message(group_id="g", generation_id=1, member_id=member)
    assert ask_broker(broker, ApiKey.SyncGroup, 2, body, now=now).error_code == 0
    return member


def state_of(broker: Broker, now: float) -> str:
    body = Message(groups=["g"])
    found: str = ask_broker(broker, ApiKey.DescribeGroups, 4, body, now=now).groups[0].group_state
    return found


def test_a_silent_member_is_put_out_though_an_earlier_alarm_found_it_alive(tmp_path: Path) -> None:
    with writable_broker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        member = joined(broker, 100.0)
        beat = Message(group_id="g", generation_id=1, member_id=member)
        assert ask_broker(broker, ApiKey.Heartbeat, 3, beat, now=105.0).error_code == 0
        for now in (110.0, 110.1, 114.9):  # the first alarm was for 110
            broker.tick(now)
        assert state_of(broker, 114.9) == "Stable"
        broker.tick(115.1)
        assert state_of(broker, 115.1) == "Empty"


def test_members_that_were_there_before_a_restart_have_a_session_to_come_back(
    tmp_path: Path,
) -> None:
    with writable_broker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        joined(broker, 100.0)
    with writable_broker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        assert state_of(broker, 200.0) == "Stable"
        broker.tick(209.9)
        assert state_of(broker, 209.9) == "Stable"
        broker.tick(210.1)
        assert state_of(broker, 210.1) == "Empty"


def test_a_group_that_is_over_goes_when_a_topic_is_deleted(tmp_path: Path) -> None:
    with writable_broker(tmp_path, "t", group_initial_rebalance_delay_ms=0) as broker:
        member = joined(broker, 100.0)
        deleting = Message(topic_names=["t"], timeout_ms=1000)
        ask_broker(broker, ApiKey.DeleteTopics, 1, deleting, now=101.0)
        assert state_of(broker, 101.0) == "Stable"
        leaving = Message(group_id="g", member_id=member)
        ask_broker(broker, ApiKey.LeaveGroup, 1, leaving, now=102.0)
        assert state_of(broker, 102.0) == "Empty"
        ask_broker(broker, ApiKey.DeleteTopics, 1, deleting, now=103.0)
        assert state_of(broker, 103.0) == "Empty"  # there was nothing to delete
        broker.topics.create("t", 1, {}, 0)
        ask_broker(broker, ApiKey.DeleteTopics, 1, deleting, now=104.0)
        assert state_of(broker, 104.0) == "Dead"


def test_a_client_that_joins_and_is_gone_does_not_stay_for_ever() -> None:
    """Nothing is heard of a client while it waits for the others of its generation."""
    leader, slow, gone = (Someone(joining(rebalance_timeout=900.0)) for _ in range(3))
    group = stable(leader, slow)
    ask(group, gone, 7.0)
    come_back(leader, rebalance_timeout=900.0)
    ask(group, leader, 8.0)
    assert group.state is State.PREPARING  # it waits for the slow one, whose heartbeats come
    for second in range(8, 8 + int(NEW_MEMBER_TIMEOUT), 5):
        assert group.heartbeat(slow.identity, float(second)) is ErrorCode.REBALANCE_IN_PROGRESS
        group.advance(float(second))
        run(group)
    assert len(group.members) == 3
    group.advance(7.0 + NEW_MEMBER_TIMEOUT)
    run(group)
    assert gone.joined is not None
    assert gone.joined.code is ErrorCode.UNKNOWN_MEMBER_ID
    for second in range(310, 700, 5):
        group.heartbeat(slow.identity, float(second))
        group.advance(float(second))
    assert len(group.members) == 2  # who joined again waits, however long that takes


def test_a_member_that_asks_twice_for_its_assignment_is_answered_twice() -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = group_of(leader, follower, now=0.0)
    told: list[ErrorCode] = []
    for now in (6.0, 7.0):
        group.sync(follower.identity, {}, now, lambda response: told.append(response.code))
        run(group)
    assert told == [ErrorCode.REBALANCE_IN_PROGRESS]
    sync(group, leader, 8.0)
    assert told == [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE]


def test_an_assignment_that_cannot_be_stored_is_refused_and_all_join_again() -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = assigned_in_vain(leader, follower)
    for person in (leader, follower):
        assert person.synced is not None
        assert (person.synced.code, person.synced.assignment) == (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            b"",
        )
    assert [one.assignment for one in group.members.values()] == [b"", b""]
    assert group.state is State.PREPARING
    assert group.heartbeat(follower.identity, 8.0) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_notes_since_when_it_has_no_members() -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = stable(leader, follower)
    group.leave(leader.identity.member_id, None, 7.0)
    assert group.empty_since is None
    group.leave(follower.identity.member_id, None, 9.0)
    since: float | None = group.empty_since
    assert (str(group.state), since) == ("Empty", 9.0)


def test_a_group_of_absent_static_members_is_looked_at_once_a_second_at_most() -> None:
    """All are away, none can lead, and their rebalance timeout is nothing."""
    people = [Someone(joining(instance_id=name, rebalance_timeout=0.0)) for name in "ab"]
    group = Group("g", GroupLimits(initial_delay=DELAY), lambda _group, _now: ErrorCode.NONE)
    for person in people:
        ask(group, person, 0.0)
    group.advance(DELAY)
    run(group)
    for person in people:
        sync(group, person, DELAY)
    assert group.state is State.STABLE
    ask(group, Someone(joining(rebalance_timeout=0.0)), 4.0)  # all are to join again
    newcomer = next(one for one in group.members.values() if one.instance_id is None)
    group.leave(newcomer.id, None, 4.0)
    run(group)
    group.advance(5.0)
    assert (group.state, len(group.members)) == (State.PREPARING, 2)
    deadline = group.next_deadline()
    assert deadline is not None
    assert deadline >= 5.0 + 1.0


def test_an_instance_that_is_named_in_a_transaction_must_be_its_member() -> None:
    group = stable(Someone(joining()), Someone(joining(instance_id="i")))
    for instance, code in (
        ("i", ErrorCode.FENCED_INSTANCE_ID),  # it does not say by which id
        ("none", ErrorCode.UNKNOWN_MEMBER_ID),
        (None, ErrorCode.NONE),
    ):
        assert group.check_commit_in_transaction(MemberIdentity("", -1, instance)) is code


def test_a_deleted_group_waits_for_no_member() -> None:
    group = Group("g", GroupLimits(initial_delay=DELAY), lambda _group, _now: ErrorCode.NONE)
    ask(group, Someone(joining(needs_known_id=True)), 0.0)
    assert group.next_deadline() == SESSION
    group.kill()
    assert (group.state, group.next_deadline()) == (State.DEAD, None)
