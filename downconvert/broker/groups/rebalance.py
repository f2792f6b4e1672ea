"""How a group gets from one generation to the next: its state, its timers, and its responses.

Before a generation begins, all members join. One of them becomes the leader. It gets the metadata
of all members, and returns an assignment for each. When a member joins, leaves, fails or changes
its subscription, all others join again.

The rules and error codes are those of Kafka 3.9's GroupCoordinator and GroupMetadata, with one
addition: a member that is removed while it waits for its assignment gets an error.

There is no I/O and no clock: `now` is an argument, in seconds. Responses are collected in `outbox`.
The owner calls them while it holds no lock.

Not here: other requests of members (group.py), the list of members (members.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from downconvert.protocol.errors import ErrorCode

from .member import Joined, Member, Synced
from .member_memory import MemberMemory
from .members import Members
from .pending_members import PendingMembers

Response = TypeVar("Response", Joined, Synced)

GENERATION_MAX: Final = 2**31 - 1
NO_LEADER_DELAY: Final = 1.0  # seconds, at least, between two attempts to elect a leader


class State(StrEnum):
    """The names are those that DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# Names of their own, as that of `NONE`.
EMPTY: Final = State.EMPTY
PREPARING: Final = State.PREPARING
DEAD: Final = State.DEAD


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Limits of members and of their bytes, and the delay of the first rebalance. `memory`: the
    memory of the members of all groups."""

    size_max: int = 2**31 - 1
    metadata_max: int = 2**31 - 1
    initial_delay: float = 3.0  # seconds
    memory: MemberMemory = field(default_factory=MemberMemory)


class Rebalance:
    """A group's members and generation. Its owner holds a lock around every call."""

    def __init__(self, limits: GroupLimits, store: Callable[[float], ErrorCode]) -> None:
        """`store` writes the group's state. It gets the time, and returns an error code."""
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = Members(limits.memory)
        self.pending = PendingMembers(limits.memory)
        self.unsynced: set[str] = set()  # members that have not requested their assignment
        self.empty_since: float | None = None  # seconds; None: unknown, or not empty
        self.outbox: list[Callable[[], None]] = []
        self._limits = limits
        self.store = store
        self._join_deadline: float | None = None
        self._sync_deadline: float | None = None
        self._extra_delay = 0.0  # seconds by which the first rebalance may still be delayed
        self._has_newcomers = False
        self._is_initial = False  # whether the first rebalance waits for more members

    # --- time

    def next_deadline(self, member_id: str | None = None) -> float | None:
        """The latest time to call `advance`, in seconds; None: nothing waits. `member_id`: the end
        of this member's session instead; None: there is none, or it waits for a response."""
        if member_id is not None:
            member = self.members.by_id.get(member_id)
            return None if member is None else member.deadline
        deadlines = [*self.members.deadlines(), *self.pending.deadlines()]
        for deadline in self._join_deadline, self._sync_deadline:
            if deadline is not None:
                deadlines.append(deadline)
        return min(deadlines, default=None)

    def advance(self, now: float) -> None:
        """Runs the timers that are due."""
        self.pending.expire(now)
        for member in list(self.members.values()):
            if member.deadline is None or member.deadline > now or member.id not in self.members:
                continue
            if member.join_reply is None or member.is_new:
                self.remove_member(member, now)
            else:
                member.deadline = None
        if self._sync_deadline is not None and self._sync_deadline <= now:
            self._sync_deadline = None
            for member in [one for one in self.members.values() if one.id in self.unsynced]:
                self.remove_member(member, now)
        if self._join_deadline is not None and self._join_deadline <= now:
            self.complete_join(now)
        self.maybe_complete_join(now)

    # --- joining

    def admit(self, member: Member) -> None:
        """Adds a member. The others join again."""
        self.members.admit(member)
        if self.state is State.PREPARING and self.generation == 0:
            self._has_newcomers = True

    def prepare_rebalance(self, now: float) -> None:
        """Makes all members join again, unless they already must."""
        if self.state is State.PREPARING:
            return
        for member in self.members.values():
            if member.sync_reply is not None:
                self.answer_sync(member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS))
                self.reset_session_timer(member, now)
        self._sync_deadline = None
        timeout = self.members.rebalance_timeout
        self._is_initial = self.state is State.EMPTY
        if self._is_initial:
            delay = self._limits.initial_delay
            self._extra_delay, timeout = max(timeout - delay, 0.0), delay
            self._has_newcomers = False
        self.state = State.PREPARING
        self._join_deadline = now + timeout

    def maybe_complete_join(self, now: float) -> None:
        """Begins the next generation if all members have joined."""
        if self.state is not State.PREPARING:
            return
        if self._is_initial:
            if self._join_deadline is not None and self._join_deadline <= now:
                self.complete_join(now)
        elif not self.pending and all(one.join_reply for one in self.members.values()):
            self.complete_join(now)

    def complete_join(self, now: float) -> None:
        """Begins a generation with the members that have joined, and with all static members."""
        if self._has_newcomers and self._extra_delay > 0:
            delay = min(self._limits.initial_delay, self._extra_delay)
            self._extra_delay -= delay
            self._has_newcomers, self._join_deadline = False, now + delay
            return
        self._is_initial = self._has_newcomers = False
        for member in list(self.members.values()):
            if member.join_reply is None and member.instance_id is None:
                self._remove(member)
        if self.members and not self.members.elect():
            self._join_deadline = now + max(self.members.rebalance_timeout, NO_LEADER_DELAY)
            return
        self._join_deadline = None
        self.generation = 1 if self.generation == GENERATION_MAX else self.generation + 1
        if not self.members:
            self.state, self.protocol, self.empty_since = State.EMPTY, None, now
            self.store(now)
            return
        self.state, self.protocol = State.COMPLETING, self.members.select_protocol()
        self.unsynced = set(self.members)
        self._sync_deadline = now + self.members.rebalance_timeout
        for member in self.members.values():
            self.answer_join(member, self.joined(member))
            self.reset_session_timer(member, now)
            member.is_new = False

    # --- assigning

    def assign(self, assignments: dict[str, bytes], now: float) -> None:
        """Stores the leader's assignments. The generation is then stable."""
        members = self.members.values()
        before = {member.id: member.assignment for member in members}
        given = {member.id: assignments.get(member.id, b"") for member in members}
        more = sum(map(len, given.values())) - sum(map(len, before.values()))
        has_room = self._limits.memory.has_room(more)
        for member in members if has_room else ():
            self.members.give(member, given[member.id])
        self.state = State.STABLE
        code = self.store(now) if has_room else ErrorCode.UNKNOWN_SERVER_ERROR
        if code:
            self.state = State.COMPLETING
            for member in self.members.values():
                self.members.give(member, before[member.id])
                if self.answer_sync(member, Synced(code=code)):
                    self.reset_session_timer(member, now)
            self.prepare_rebalance(now)
            return
        for member in self.members.values():
            if self.answer_sync(member, self.synced(member)):
                self.reset_session_timer(member, now)

    # --- members

    def remove_member(self, member: Member, now: float) -> None:
        """Removes a member. The others join again."""
        self._remove(member)
        if self.state in (State.STABLE, State.COMPLETING):
            self.prepare_rebalance(now)
        self.maybe_complete_join(now)

    def _remove(self, member: Member) -> None:
        self.answer_join(member, Joined(member_id="", code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.answer_sync(member, Synced(code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.unsynced.discard(member.id)
        self.members.remove(member)

    def reset_session_timer(self, member: Member, now: float) -> None:
        """Restarts a member's session timeout, because it sent a request."""
        member.deadline = now + member.session_timeout

    # --- responses

    def joined(self, member: Member) -> Joined:
        """The response to the join of a member of this generation."""
        is_leader = member.id == self.members.leader
        return Joined(
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.members.leader or "",
            members=self.members.metadata(self.protocol) if is_leader else (),
        )

    def synced(self, member: Member) -> Synced:
        """The response to a sync, with the member's assignment."""
        return Synced(
            protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment
        )

    def answer_join(self, member: Member, joined: Joined) -> None:
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self.send(reply, joined)

    def answer_sync(self, member: Member, synced: Synced) -> bool:
        """Answers the member's sync. Returns whether it was waiting for the response."""
        reply, member.sync_reply = member.sync_reply, None
        if reply is not None:
            self.send(reply, synced)
        return reply is not None

    def send(self, reply: Callable[[Response], None], response: Response) -> None:
        self.outbox.append(partial(reply, response))
