"""A group, by itself: whatever its members do, in any order, and whenever."""

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from downconvert.broker import ErrorCode
from downconvert.broker.groups.group import Group
from downconvert.broker.groups.member import Join, Joined, MemberIdentity, Synced
from downconvert.broker.groups.rebalance import GroupLimits, State

SESSION, REBALANCE, DELAY = 10.0, 20.0, 3.0
WAIT_MAX = 400.0  # seconds: longer than any timeout


@dataclass(eq=False)
class Someone:
    """A client, its last request and its last response."""

    join: Join
    joined: Joined | None = None
    synced: Synced | None = None
    waits: str = ""
    since: float = 0.0

    @property
    def identity(self) -> MemberIdentity:
        assert self.joined is not None
        return MemberIdentity(self.joined.member_id, self.joined.generation, self.join.instance_id)


def joining(**fields: object) -> Join:
    start = Join(
        protocol_type="consumer",
        protocols=(("range", b"r"), ("sticky", b"s")),
        session_timeout=SESSION,
        rebalance_timeout=REBALANCE,
    )
    return replace(start, **fields)  # type: ignore[arg-type]


class Clients(RuleBasedStateMachine):
    """Clients that do as they like, with their responses checked."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.stored: list[int] = []
        self.fails = False
        self.group = Group("g", GroupLimits(size_max=5, initial_delay=DELAY), self.store)
        self.people: list[Someone] = []
        self.generation = 0
        self.leaders: dict[int, str] = {}

    def store(self, group: Group, _now: float) -> ErrorCode:
        if self.fails:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.stored.append(group.generation)
        return ErrorCode.NONE

    def settle(self) -> None:
        while self.group.outbox:
            run(self.group)
        assert self.group.generation >= self.generation, "a generation has gone back"
        self.generation = self.group.generation

    def someone(self, draw: st.DataObject, waits: str = "") -> Someone | None:
        found = [one for one in self.people if one.joined is not None and one.waits == waits]
        return draw.draw(st.sampled_from(found)) if found else None

    # --- what clients do

    @rule(
        instance=st.sampled_from([None, None, None, "a", "b"]),
        knows_id=st.booleans(),
        protocols=st.sampled_from(["both", "range", "sticky"]),
    )
    def come(self, instance: str | None, knows_id: bool, protocols: str) -> None:
        offered = joining().protocols
        if protocols != "both":
            offered = tuple(one for one in offered if one[0] == protocols)
        join = joining(instance_id=instance, needs_known_id=knows_id, protocols=offered)
        person = Someone(join)
        self.people.append(person)
        self.ask_to_join(person)

    @rule(data=st.data(), changes=st.booleans())
    def come_again(self, data: st.DataObject, changes: bool) -> None:
        person = self.someone(data)
        if person is not None and person.joined is not None:
            protocols = (("sticky", b"new"),) if changes else person.join.protocols
            person.join = replace(
                person.join, member_id=person.joined.member_id, protocols=protocols
            )
            self.ask_to_join(person)

    def ask_to_join(self, person: Someone) -> None:
        def joined(response: Joined) -> None:
            assert person.waits == "join", "answered twice"
            person.waits, person.joined = "", response
            if response.code or response.generation < 0:
                return
            assert response.leader
            if response.members:
                assert response.leader == response.member_id
                leader = self.leaders.setdefault(response.generation, response.member_id)
                is_back = person.join.instance_id is not None
                assert leader == response.member_id or is_back, "two lead a generation"

        person.waits, person.since = "join", self.now
        self.group.join(person.join, self.now, joined)
        self.settle()

    @rule(data=st.data())
    def assign_or_ask(self, data: st.DataObject) -> None:
        person = self.someone(data)
        if person is None or person.joined is None or person.joined.code:
            return

        def synced(response: Synced) -> None:
            assert person.waits == "sync", "answered twice"
            person.waits, person.synced = "", response

        person.waits, person.since = "sync", self.now
        assignments = {one[0]: b"of " + one[0].encode() for one in person.joined.members}
        self.group.sync(person.identity, assignments, self.now, synced)
        self.settle()
        response = person.synced
        if person.waits or response is None:
            return
        if person.identity.generation != self.group.generation:
            assert response.code
        elif not response.code and response.assignment:
            assert response.assignment.startswith(b"of ")

    @rule(data=st.data())
    def live(self, data: st.DataObject) -> None:
        person = self.someone(data)
        if person is not None:
            is_old = person.identity.generation != self.group.generation
            code = self.group.heartbeat(person.identity, self.now)
            assert code or not is_old, "a heartbeat of an old generation"
            self.settle()

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        person = self.someone(data)
        if person is not None and person.identity.generation >= 0:
            is_old = person.identity.generation != self.group.generation
            code = self.group.check_commit(person.identity, self.now)
            assert code or not is_old, "a commit of an old generation"
            self.settle()

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        person = self.someone(data)
        if person is not None:
            identity = person.identity
            code = self.group.leave(identity.member_id, identity.instance_id, self.now)
            assert code or identity.member_id not in self.group.members
            self.settle()

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 15.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        for _ in range(1000):
            deadline = self.group.next_deadline()
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.group.advance(self.now)
            self.settle()
        else:
            raise AssertionError("it is woken again and again")
        self.now = end

    @rule(fails=st.booleans())
    def disk(self, fails: bool) -> None:
        self.fails = fails

    @precondition(lambda self: not self.fails)
    @rule()
    def all_resume(self) -> None:
        """Members that do as they should get to a stable generation."""
        self.time_passes(WAIT_MAX)
        people = [Someone(joining()) for _ in range(3)]
        self.people = people
        for person in people:
            self.ask_to_join(person)
        self.time_passes(2 * DELAY + 1.0)
        for person in people:
            assert person.joined is not None
            assert not person.joined.code
            self.sync(person)
        assert self.group.state is State.STABLE
        assert [one.synced.assignment for one in people if one.synced] == [
            b"of " + one.identity.member_id.encode() for one in people
        ]

    def sync(self, person: Someone) -> None:
        def synced(response: Synced) -> None:
            person.waits, person.synced = "", response

        assert person.joined is not None
        assignments = {one[0]: b"of " + one[0].encode() for one in person.joined.members}
        person.waits, person.since = "sync", self.now
        self.group.sync(person.identity, assignments, self.now, synced)
        self.settle()

    # --- what always holds

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        for person in self.people:
            if person.waits:
                assert self.now - person.since <= WAIT_MAX
                assert self.group.next_deadline() is not None

    @invariant()
    def somebody_leads(self) -> None:
        group = self.group
        assert (group.leader in group.members) == bool(group.members)
        if group.state in (State.STABLE, State.COMPLETING):
            assert group.members
            assert all(one.metadata(group.protocol) for one in group.members.values())
        assert sum(one.join_reply is not None for one in group.members.values()) <= 5

    @invariant()
    def members_of_a_stable_group_are_assigned_once(self) -> None:
        if self.group.state is State.STABLE:
            assert not any(one.sync_reply for one in self.group.members.values())
            assert self.stored


def group_of(*people: Someone, now: float, limits: GroupLimits | None = None) -> Group:
    """A group whose first generation is complete, but for its assignments."""
    group = Group(
        "g", limits or GroupLimits(initial_delay=DELAY), lambda _group, _now: ErrorCode.NONE
    )
    for person in people:
        ask(group, person, now)
    group.advance(now + DELAY)
    group.advance(now + 2 * DELAY)
    run(group)
    return group


def ask(group: Group, person: Someone, now: float) -> None:
    group.join(person.join, now, lambda response: setattr(person, "joined", response))
    run(group)


def sync(group: Group, person: Someone, now: float) -> None:
    assert person.joined is not None
    given = {one[0]: one[0].encode() for one in person.joined.members}
    group.sync(person.identity, given, now, lambda response: setattr(person, "synced", response))
    run(group)


def run(group: Group) -> None:
    responses, group.outbox = group.outbox, []
    for response in responses:
        response()


def assigned_in_vain(leader: Someone, follower: Someone) -> Group:
    """A group whose assignment, at 7 seconds, could not be stored."""
    code = ErrorCode.NONE
    group = Group("g", GroupLimits(initial_delay=DELAY), lambda _group, _now: code)
    for person in (leader, follower):
        ask(group, person, 0.0)
    for now in (DELAY, 2 * DELAY):
        group.advance(now)
    run(group)
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    sync(group, follower, 7.0)
    sync(group, leader, 7.0)
    return group


def live_until(group: Group, *people: Someone, start: float, end: float) -> None:
    for now in range(int(start), int(end)):
        for person in people:
            group.heartbeat(person.identity, now)
        group.advance(now)


def test_a_follower_that_looks_for_the_leader_disturbs_no_client() -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = group_of(leader, follower, now=0.0)
    sync(group, leader, 6.0)
    sync(group, follower, 7.0)
    assert follower.synced is not None
    assert follower.synced.assignment == follower.identity.member_id.encode()
    live_until(group, leader, follower, start=8, end=100)
    assert (group.state, group.generation) == (State.STABLE, 1)


def test_a_group_is_called_again_when_the_assignment_is_overdue() -> None:
    patient = Someone(joining(session_timeout=WAIT_MAX, rebalance_timeout=REBALANCE))
    group = group_of(patient, now=0.0)
    assert group.state is State.COMPLETING
    assert patient.joined is not None
    deadline = group.next_deadline()
    assert deadline is not None
    assert REBALANCE <= deadline < WAIT_MAX
    group.advance(deadline)
    assert not group.members


def test_a_follower_that_never_asks_is_left_out() -> None:
    leader, follower = Someone(joining()), Someone(joining())
    group = group_of(leader, follower, now=0.0)
    sync(group, leader, 6.0)
    live_until(group, leader, follower, start=7, end=int(REBALANCE) + 8)
    assert group.state is State.PREPARING
    assert list(group.members) == [leader.identity.member_id]


def test_a_member_with_too_much_metadata_is_removed_and_the_others_resume() -> None:
    small, large = Someone(joining()), Someone(joining())
    group = group_of(
        small, large, now=0.0, limits=GroupLimits(metadata_max=100, initial_delay=DELAY)
    )
    sync(group, small, 6.0)
    sync(group, large, 6.0)
    large.join = replace(
        large.join, member_id=large.identity.member_id, protocols=(("range", bytes(100)),)
    )
    ask(group, large, 7.0)
    assert large.joined is not None
    assert large.joined.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    small.join = replace(small.join, member_id=small.identity.member_id)
    ask(group, small, 8.0)
    assert (small.identity.generation, list(group.members)) == (2, [small.identity.member_id])


def test_a_group_takes_so_many_members_and_keeps_so_many_ids() -> None:
    group = group_of(Someone(joining()), now=0.0, limits=GroupLimits(size_max=1))
    late = Someone(joining())
    ask(group, late, 7.0)
    assert late.joined is not None
    assert late.joined.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    group = Group("h", GroupLimits(size_max=2), lambda _group, _now: ErrorCode.NONE)
    people = [Someone(joining(needs_known_id=True)) for _ in range(3)]
    for person in people:
        ask(group, person, 0.0)
    codes = [person.joined.code for person in people if person.joined]
    assert codes == [ErrorCode.MEMBER_ID_REQUIRED] * 3
    assert len(group.members) == 0


def test_a_first_generation_waits_for_members_that_join_meanwhile() -> None:
    first, second = Someone(joining()), Someone(joining())
    group = Group("g", GroupLimits(initial_delay=DELAY), lambda _group, _now: ErrorCode.NONE)
    ask(group, first, 0.0)
    ask(group, second, 2.0)
    for now in (2.9, 3.0, 5.9):
        group.advance(now)
        assert group.state is State.PREPARING
    group.advance(6.0)
    assert (group.state, len(group.members)) == (State.COMPLETING, 2)


TestClients = Clients.TestCase
TestClients.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
