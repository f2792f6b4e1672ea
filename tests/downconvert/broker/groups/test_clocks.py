"""A group beside a plain model of its clocks: who is a member at which second, in which generation.

No two members have equal timeouts. Kafka's rules: a session begins at each sign of life; a
rebalance, and the wait for assignments, take the longest rebalance timeout of the members."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from downconvert.broker import ErrorCode
from downconvert.broker.groups.group import Group
from downconvert.broker.groups.rebalance import GroupLimits, State
from downconvert.internal_topics.group_records import StoredGroup

from .test_between_steps import come_back
from .test_group import DELAY, Someone, group_of, joining, run

SESSIONS = 11.0, 23.0, 37.0
REBALANCES = [(29.0, 53.0, 41.0), (5.0, 9.0, 7.0)]  # longer than sessions, or shorter
START = 2 * DELAY  # when the first generation has begun


@dataclass(eq=False)
class Clock:
    """A member in the model. Times in seconds."""

    session: float
    rebalance: float
    end: float | None  # of its session; None: it waits for a response
    waits: str = ""


class Model:
    """The members by number; the first of them leads, and none comes after the start."""

    def __init__(self, rebalances: tuple[float, ...]) -> None:
        self.state, self.generation = State.COMPLETING, 1
        times = zip(SESSIONS, rebalances, strict=True)
        self.clocks = {at: Clock(one, two, START + one) for at, (one, two) in enumerate(times)}
        self.unsynced = set(self.clocks)
        self.due: float | None = START + self.longest

    @property
    def longest(self) -> float:
        return max((one.rebalance for one in self.clocks.values()), default=0.0)

    def next_end(self) -> float | None:
        ends = [one.end for one in self.clocks.values() if one.end is not None]
        return min([*ends, *([] if self.due is None else [self.due])], default=None)

    def advance(self, now: float) -> None:
        for number, clock in list(self.clocks.items()):
            if number in self.clocks and clock.end is not None and clock.end <= now:
                self.put_out(number, now)
        if self.due is None or self.due > now:
            return
        if self.state is State.PREPARING:
            self.begin(now)
            return
        self.due = None
        for number in sorted(self.unsynced):
            self.put_out(number, now)

    def put_out(self, number: int, now: float) -> None:
        del self.clocks[number]
        self.unsynced.discard(number)
        self.prepare(now)
        self.maybe_begin(now)

    def prepare(self, now: float) -> None:
        if self.state in (State.PREPARING, State.EMPTY):
            return
        for clock in self.clocks.values():
            if clock.waits == "sync":
                clock.waits, clock.end = "", now + clock.session
        self.state, self.due = State.PREPARING, now + self.longest

    def maybe_begin(self, now: float) -> None:
        joined = all(one.waits == "join" for one in self.clocks.values())
        if self.state is State.PREPARING and joined:
            self.begin(now)

    def begin(self, now: float) -> None:
        self.clocks = {at: one for at, one in self.clocks.items() if one.waits == "join"}
        self.generation += 1
        self.unsynced, self.due = set(self.clocks), now + self.longest
        self.state = State.COMPLETING
        for clock in self.clocks.values():
            clock.waits, clock.end = "", now + clock.session
        if not self.clocks:
            self.state, self.due = State.EMPTY, None

    def join(self, number: int, now: float) -> None:
        clock = self.clocks[number]
        clock.waits, clock.end = "join", None
        self.prepare(now)
        clock.waits, clock.end = "join", None
        self.maybe_begin(now)

    def sync(self, number: int, now: float, *, leads: bool) -> None:
        clock = self.clocks[number]
        if self.state is State.PREPARING:
            return
        self.unsynced.discard(number)
        if self.state is State.STABLE:
            clock.end = now + clock.session
            return
        clock.waits, clock.end = "sync", None
        if leads:
            self.state = State.STABLE
            for one in self.clocks.values():
                if one.waits == "sync":
                    one.waits, one.end = "", now + one.session


class Pair:
    """A group and its model, at the same second."""

    def __init__(self, rebalances: tuple[float, ...]) -> None:
        times = zip(SESSIONS, rebalances, strict=True)
        self.people = [
            Someone(joining(session_timeout=one, rebalance_timeout=two)) for one, two in times
        ]
        limits = GroupLimits(initial_delay=DELAY)
        self.group = group_of(*self.people, now=0.0, limits=limits)
        self.model, self.now = Model(rebalances), START
        self.changes = 0

    def act(self, kind: str, number: int) -> None:
        person, model, group = self.people[number], self.model, self.group
        clock = model.clocks.get(number)
        if clock is None or clock.waits:
            return
        if kind == "live":
            expected = model.state is State.PREPARING
            code = group.heartbeat(person.identity, self.now)
            assert code is (ErrorCode.REBALANCE_IN_PROGRESS if expected else ErrorCode.NONE)
            clock.end = self.now + clock.session
        elif kind == "commit":
            expected = model.state is State.COMPLETING
            code = group.check_commit(person.identity, self.now)
            assert code is (ErrorCode.REBALANCE_IN_PROGRESS if expected else ErrorCode.NONE)
            clock.end = self.now + clock.session
        elif kind == "join":
            self.changes += 1
            come_back(
                person,
                protocols=(("range", b"%d" % self.changes),),
                session_timeout=clock.session,
                rebalance_timeout=clock.rebalance,
            )
            group.join(person.join, self.now, lambda told: setattr(person, "joined", told))
            model.join(number, self.now)
        elif kind == "sync":
            leads = group.leader == person.identity.member_id
            group.sync(person.identity, {}, self.now, lambda told: setattr(person, "synced", told))
            model.sync(number, self.now, leads=leads)
        elif kind == "restart" and model.state is State.STABLE:
            self.restart()

    def restart(self) -> None:
        before, model = self.group, self.model
        members = tuple(one.stored(before.protocol) for one in before.members.values())
        kept = StoredGroup(
            "consumer", before.generation, before.protocol, before.leader, 5, members
        )
        self.group = Group("g", GroupLimits(), lambda _group, _now: ErrorCode.NONE)
        self.group.restore(kept, self.now)
        model.due, model.unsynced = None, set()
        for clock in model.clocks.values():
            clock.end = self.now + clock.session

    def check(self) -> None:
        run(self.group)
        names = [self.people[at].identity.member_id for at in self.model.clocks]
        assert sorted(self.group.members) == sorted(names)
        group, model = self.group, self.model
        assert (group.state, group.generation) == (model.state, model.generation)

    def pass_time(self, seconds: float) -> None:
        """Both are advanced at each time that either of them names, and nowhere else."""
        end = self.now + seconds
        while True:
            times = (self.group.next_deadline(), self.model.next_end())
            due = min((one for one in times if one is not None), default=end + 1)
            if due > end:
                break
            self.now = due
            self.group.advance(due)
            self.model.advance(due)
            self.check()
        self.now = end


KINDS = st.sampled_from(["live", "commit", "join", "sync", "sync", "restart"])
STEPS = st.lists(st.tuples(st.integers(0, 20), KINDS, st.integers(0, 2)), max_size=25)


@given(STEPS, st.sampled_from(REBALANCES))
@settings(max_examples=150, deadline=None)
def test_members_stay_and_go_at_the_seconds_that_their_own_timeouts_say(
    steps: list[tuple[int, str, int]], rebalances: tuple[float, ...]
) -> None:
    pair = Pair(rebalances)
    pair.check()
    for seconds, kind, number in steps:
        pair.pass_time(seconds / 2)
        pair.act(kind, number)
        pair.check()
    pair.pass_time(200.0)
    assert not pair.group.members
