"""How clients become members, one rule at a time: limits, protocols, timeouts, static members.

Not here: what happens between two steps (test_between_steps.py), any order (test_group.py)."""

import pytest

from downconvert.broker import ErrorCode
from downconvert.broker.groups.group import Group
from downconvert.broker.groups.joining import NEW_MEMBER_TIMEOUT
from downconvert.broker.groups.member import Join
from downconvert.broker.groups.rebalance import GroupLimits, State

from .test_between_steps import come_back, stable
from .test_group import DELAY, REBALANCE, SESSION, Someone, ask, group_of, joining, run, sync

SIZE = len(b"rangerstickys")  # of what `joining` offers
CHANGED = (("range", b"changed"),)


def told(group: Group, join: Join, now: float) -> ErrorCode | None:
    """How a join is answered; None: it waits."""
    person = Someone(join)
    ask(group, person, now)
    return None if person.joined is None else person.joined.code


def new_group(**limits: float) -> Group:
    known = GroupLimits(**limits)  # type: ignore[arg-type]
    return Group("g", known, lambda _group, _now: ErrorCode.NONE)


# --- limits


def test_the_bytes_of_all_members_together_are_limited_names_included() -> None:
    for most, code in ((2 * SIZE, None), (2 * SIZE - 1, ErrorCode.GROUP_MAX_SIZE_REACHED)):
        group = new_group(metadata_max=most)
        assert told(group, joining(), 0.0) is None
        assert told(group, joining(), 0.0) is code


def test_a_member_that_joins_again_is_counted_once() -> None:
    leader = Someone(joining())
    group = group_of(leader, now=0.0, limits=GroupLimits(metadata_max=SIZE, initial_delay=DELAY))
    come_back(leader)
    ask(group, leader, 7.0)
    assert leader.joined is not None
    assert leader.joined.code is ErrorCode.NONE


def test_the_oldest_of_too_many_member_ids_is_forgotten_and_no_client_is_refused() -> None:
    group = new_group(size_max=2)
    people = [Someone(joining(needs_known_id=True)) for _ in range(3)]
    for person in people:
        ask(group, person, 0.0)
        assert person.joined is not None
        assert person.joined.code is ErrorCode.MEMBER_ID_REQUIRED
        come_back(person)
    codes = [told(group, person.join, 1.0) for person in people]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, None, None]
    assert len(group.members) == 2


def test_in_a_full_rebalance_those_that_wait_may_ask_again_and_no_others() -> None:
    limits = GroupLimits(size_max=2, initial_delay=DELAY)
    first, second = Someone(joining()), Someone(joining())
    group = group_of(first, second, now=0.0, limits=limits)
    for person in (first, second):
        sync(group, person, 6.0)
    come_back(first, protocols=CHANGED)
    assert told(group, first.join, 7.0) is None
    assert told(group, joining(), 7.0) is None  # in the place of the one that has not come yet
    assert told(group, first.join, 8.0) is None
    come_back(second)
    assert told(group, second.join, 9.0) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_id_whose_join_was_too_large_delays_no_rebalance() -> None:
    leader, newcomer = Someone(joining()), Someone(joining(needs_known_id=True))
    group = group_of(leader, now=0.0, limits=GroupLimits(metadata_max=100, initial_delay=DELAY))
    sync(group, leader, 6.0)
    ask(group, newcomer, 7.0)
    come_back(newcomer, protocols=(("range", bytes(100)),))
    ask(group, newcomer, 8.0)
    assert newcomer.joined is not None
    assert newcomer.joined.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    come_back(leader, protocols=CHANGED)
    ask(group, leader, 9.0)
    assert (group.state, group.generation) == (State.COMPLETING, 2)


# --- protocols


def test_a_group_needs_a_type_and_a_protocol() -> None:
    for join in (joining(protocol_type=""), joining(protocols=())):
        assert told(new_group(), join, 0.0) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_another_type_is_refused_and_taken_once_the_group_is_empty() -> None:
    leader = Someone(joining())
    group = stable(leader)
    other = joining(protocol_type="connect")
    assert told(group, other, 7.0) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    group.leave(leader.identity.member_id, None, 8.0)
    assert told(group, other, 9.0) is None
    assert group.protocol_type == "connect"


def test_the_protocol_is_one_that_all_members_have() -> None:
    alone = Someone(joining(protocols=(("own", b"o"), ("range", b"r"))))
    other = Someone(joining(protocols=(("range", b"r"),)))
    assert group_of(alone, other, now=0.0).protocol == "range"


def test_the_longest_timeout_of_a_member_is_that_of_the_rebalance() -> None:
    slow = Someone(joining(rebalance_timeout=50.0, session_timeout=900.0))
    quick = Someone(joining(rebalance_timeout=20.0))
    group = stable(slow, quick)
    come_back(quick, protocols=CHANGED)
    ask(group, quick, 7.0)
    group.advance(7.0 + 49.9)
    assert group.state is State.PREPARING
    group.advance(7.0 + 50.0)
    assert (group.state, len(group.members)) == (State.COMPLETING, 1)


# --- joining again


def test_only_a_leader_of_a_stable_group_makes_the_others_join_again() -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = group_of(leader, follower, now=0.0)
    come_back(leader)
    ask(group, leader, 6.0)  # its response was lost
    assert leader.joined is not None
    assert (leader.joined.code, leader.joined.generation) == (ErrorCode.NONE, 1)
    for person in (leader, follower):
        sync(group, person, 6.0)
    come_back(follower)
    ask(group, follower, 7.0)
    assert follower.joined is not None
    assert (follower.joined.generation, group.state) == (1, State.STABLE)
    come_back(leader)
    ask(group, leader, 8.0)
    assert group.state is State.PREPARING  # type: ignore[comparison-overlap]


def test_a_member_that_joins_again_brings_its_timeouts() -> None:
    leader = Someone(joining())
    group = stable(leader)
    come_back(leader, session_timeout=33.0, rebalance_timeout=44.0)
    ask(group, leader, 7.0)
    sync(group, leader, 8.0)
    assert group.next_deadline() == 8.0 + 33.0
    (member,) = group.members.values()
    assert (member.session_timeout, member.rebalance_timeout) == (33.0, 44.0)


def test_a_new_member_that_asks_again_and_is_gone_does_not_stay_for_ever() -> None:
    slow = Someone(joining(rebalance_timeout=900.0, session_timeout=900.0))
    gone = Someone(joining(rebalance_timeout=900.0, needs_known_id=True))
    group = stable(slow)
    ask(group, gone, 7.0)
    come_back(gone, rebalance_timeout=900.0)
    for now in (8.0, 9.0):
        assert told(group, gone.join, now) is None
    group.advance(9.0 + NEW_MEMBER_TIMEOUT - 0.1)
    assert len(group.members) == 2
    group.advance(9.0 + NEW_MEMBER_TIMEOUT)
    assert len(group.members) == 1


def test_the_id_of_a_client_to_come_is_of_no_instance() -> None:
    group, person = new_group(), Someone(joining(needs_known_id=True))
    ask(group, person, 0.0)
    come_back(person, instance_id="i")
    assert told(group, person.join, 1.0) is ErrorCode.INVALID_REQUEST


# --- static members


def test_a_static_member_that_starts_again_keeps_its_place_among_the_others() -> None:
    leader, static, last = Someone(joining()), Someone(joining(instance_id="i")), Someone(joining())
    group = stable(leader, static, last)
    again = Someone(joining(instance_id="i"))
    ask(group, again, 7.0)
    assert again.joined is not None
    assert (again.joined.generation, group.state) == (1, State.STABLE)
    group.leave(leader.identity.member_id, None, 8.0)
    assert group.leader == again.joined.member_id


def test_a_static_member_that_starts_again_and_is_silent_is_put_out() -> None:
    static = Someone(joining(instance_id="i"))
    group = stable(static)
    ask(group, Someone(joining(instance_id="i", session_timeout=40.0)), 7.0)
    group.advance(7.0 + 39.9)
    assert group.state is State.STABLE
    group.advance(7.0 + 40.0)
    assert group.state is State.EMPTY  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_leader_that_starts_again_does_not_assign_again(may_skip: bool) -> None:
    leader, other = Someone(joining(instance_id="i")), Someone(joining())
    group = stable(leader, other)
    old_id = leader.identity.member_id
    again = Someone(joining(instance_id="i", may_skip_assignment=may_skip))
    ask(group, again, 7.0)
    assert again.joined is not None
    assert again.joined.leader == (again.joined.member_id if may_skip else old_id)
    assert again.joined.skip_assignment is may_skip
    assert len(again.joined.members) == (2 if may_skip else 0)


def test_a_static_member_that_starts_again_has_to_ask_for_its_assignment_in_time() -> None:
    leader, before = Someone(joining()), Someone(joining(instance_id="i"))
    group = group_of(leader, before, now=0.0)  # until 26
    sync(group, leader, 6.0)
    after = Someone(joining(instance_id="i"))
    ask(group, after, 7.0)
    for now in (15.0, 24.0, 26.0):
        for person in (leader, after):
            assert group.heartbeat(person.identity, now) is ErrorCode.NONE
        group.advance(now)
    assert list(group.members) == [leader.identity.member_id]


def test_a_static_member_that_starts_again_before_all_are_assigned_begins_a_rebalance() -> None:
    group = group_of(Someone(joining()), Someone(joining(instance_id="i")), now=0.0)
    again = Someone(joining(instance_id="i"))
    ask(group, again, 7.0)
    assert (again.joined, group.state) == (None, State.PREPARING)


def test_a_static_member_whose_new_id_cannot_be_stored_keeps_what_it_had() -> None:
    code = ErrorCode.NONE
    group = Group("g", GroupLimits(initial_delay=DELAY), lambda _group, _now: code)
    static = Someone(joining(instance_id="i"))
    ask(group, static, 0.0)
    group.advance(DELAY)
    run(group)
    sync(group, static, 6.0)
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    another = joining(instance_id="i", session_timeout=40.0, protocols=(("range", b"other"),))
    assert told(group, another, 7.0) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.next_deadline() == 7.0 + SESSION
    (member,) = group.members.values()
    assert (member.protocols, member.rebalance_timeout) == (joining().protocols, REBALANCE)


def test_an_instance_is_one_member_and_no_other() -> None:
    one, two = Someone(joining(instance_id="i")), Someone(joining(instance_id="j"))
    group = stable(one, two)
    assert group.leave(two.identity.member_id, "i", 7.0) is ErrorCode.FENCED_INSTANCE_ID
    assert len(group.members) == 2
