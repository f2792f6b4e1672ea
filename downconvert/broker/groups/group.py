"""One group: its members, generations, and how it gets from one to the next.

A generation begins with all members joining: one is chosen to lead, gets what the others said, and
hands out an assignment for each. Whoever joins, leaves, dies or changes its mind makes the others
join again. What members say and are assigned are bytes that mean nothing here.

The rules and error codes are those of Kafka 3.9's GroupCoordinator and GroupMetadata. One more:
a member that is removed while it waits for its assignment is told so.

No I/O and no clock: `now` is handed in, in seconds, answers are collected in `outbox` for whoever
holds the lock to call when it is released, and who has got time calls `advance`.

Not here: which groups there are (groups.py), what they have committed (offsets.py)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar
from uuid import NAMESPACE_OID, uuid5

from downconvert.broker.errors import ErrorCode

from .member import Claim, Join, Joined, Member, Synced
from .members import Members
from .offset_records import NO_TIME, StoredGroup

Answer = TypeVar("Answer", Joined, Synced)

# A join is answered when all have joined, and a client that hung up is not missed before that.
NEW_MEMBER_TIMEOUT: Final = 300.0  # seconds
NOBODY_DELAY: Final = 1.0  # seconds, at least, between two looks for somebody to lead
CLIENT_ID_MAX: Final = 255  # characters of it in a member's id


class State(StrEnum):
    """The names are those that DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many members, how many bytes of theirs; how long the first one waits for others."""

    size_max: int = 2**31 - 1
    metadata_max: int = 2**31 - 1
    initial_delay: float = 3.0  # seconds


class Group:
    """A group. Its owner holds a lock around every call."""

    def __init__(
        self,
        group_id: str,
        limits: Limits,
        store: Callable[["Group", float], ErrorCode],
    ) -> None:
        """`store` keeps the group as it is; an error code if it cannot."""
        self.id = group_id
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = Members()
        self.empty_since: float | None = None  # seconds; None: that is not known, or it is not
        self.outbox: list[Callable[[], None]] = []
        self._limits = limits
        self._store = store
        self._pending: dict[str, float] = {}  # deadlines of ids that have been handed out
        self._unsynced: set[str] = set()
        self._join_deadline: float | None = None
        self._sync_deadline: float | None = None
        self._extra_delay = 0.0  # seconds that the first rebalance may still be put off
        self._has_newcomers = False
        self._is_initial = False  # the first rebalance is put off for others to come
        self._ids_count = 0

    # --- what members ask

    def join(self, join: Join, now: float, reply: Callable[[Joined], None]) -> None:
        """Makes somebody a member, or lets one join again. Answered at once or later."""
        code, member_id = self._join(join, now, reply)
        if code:
            self._send(reply, Joined(member_id=member_id, code=code))
        self._complete_join_if_all_are_here(now)

    def sync(
        self,
        claim: Claim,
        assignments: dict[str, bytes],
        now: float,
        reply: Callable[[Synced], None],
        *,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> None:
        """Hands in the leader's assignments, asks for one's own. Answered at once or later."""
        code = self._check_claim(claim)
        if not code and (
            (protocol_type is not None and protocol_type != self.protocol_type)
            or (protocol is not None and protocol != self.protocol)
        ):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not code and self.state is State.PREPARING:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code:
            self._send(reply, Synced(code=code))
            return
        member = self.members[claim.member_id]
        self._unsynced.discard(member.id)
        if self.state is State.STABLE:
            self._send(reply, self._synced(member))
            self._hear_of(member, now)
            return
        self._answer_sync(member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS))  # an earlier one
        member.sync_reply, member.deadline = reply, None
        if member.id == self.leader:
            self._assign(assignments, now)

    def heartbeat(self, claim: Claim, now: float) -> ErrorCode:
        code = self._check_claim(claim)
        if code:
            return code
        self._hear_of(self.members[claim.member_id], now)
        if self.state is State.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None, now: float) -> ErrorCode:
        """A member goes; a static one may be named by its instance id only."""
        if self.state is State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not member_id:
            member_id = self.members.static(instance_id) or ""
        elif member_id in self._pending:
            del self._pending[member_id]
            self._complete_join_if_all_are_here(now)
            return ErrorCode.NONE
        code = self.members.check(member_id, instance_id)
        if not code:
            self._expel(self.members[member_id], now)
        return code

    def check_commit(self, claim: Claim, now: float) -> ErrorCode:
        """Whether whoever this is may commit offsets."""
        if self.state is State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.state is State.EMPTY and claim.generation < 0:
            return ErrorCode.NONE  # somebody who keeps nothing but offsets here
        if claim.generation < 0 and not claim.member_id and claim.instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        code = self._check_claim(claim)
        if code:
            return code
        self._hear_of(self.members[claim.member_id], now)
        if self.state is State.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    @property
    def leader(self) -> str | None:
        """The id of the member that leads, if there is any member."""
        return self.members.leader

    @property
    def is_unused(self) -> bool:
        """Whether there has never been a generation, and nobody is about to join."""
        return self.state is State.DEAD or (
            self.state is State.EMPTY and not self.generation and not self._pending
        )

    def kill(self) -> None:
        """The group is no more. Only an empty one may be killed."""
        assert self.state is State.EMPTY
        self.state = State.DEAD
        self._pending.clear()

    def restore(self, stored: StoredGroup, now: float) -> None:
        """Makes it what it was when it was stored. Its members may be late by their timeouts."""
        self.generation, self.protocol_type = stored.generation, stored.protocol_type or None
        for member in stored.members:
            self.members.admit(member)
            member.is_new = False
            self._hear_of(member, now)
        if self.members:
            self.state, self.protocol = State.STABLE, stored.protocol
        elif stored.time != NO_TIME:
            self.empty_since = stored.time / 1000
        if stored.leader in self.members:
            self.members.leader = stored.leader

    # --- time

    def next_deadline(self) -> float | None:
        """When `advance` is to be called at the latest, in seconds; None: nothing waits."""
        deadlines = [member.deadline for member in self.members.values()]
        deadlines += [self._join_deadline, self._sync_deadline, *self._pending.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def advance(self, now: float) -> None:
        """Does what is due."""
        for member_id, deadline in list(self._pending.items()):
            if deadline <= now:
                del self._pending[member_id]
        for member in list(self.members.values()):
            if member.deadline is None or member.deadline > now or member.id not in self.members:
                continue
            if member.join_reply is None or member.is_new:
                self._expel(member, now)
            else:
                member.deadline = None
        if self._sync_deadline is not None and self._sync_deadline <= now:
            self._sync_deadline = None
            for member in [one for one in self.members.values() if one.id in self._unsynced]:
                self._expel(member, now)
        if self._join_deadline is not None and self._join_deadline <= now:
            self._complete_join(now)
        self._complete_join_if_all_are_here(now)

    # --- joining

    def _join(
        self, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> tuple[ErrorCode, str]:
        """An error, with the id to tell it with; no error: it is answered elsewhere."""
        if self.state is State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, join.member_id
        if not self._has_room(join):
            member = self.members.get(join.member_id)
            if member is not None:
                self._expel(member, now)
            self._pending.pop(join.member_id, None)
            return ErrorCode.GROUP_MAX_SIZE_REACHED, ""
        if not self._supports(join):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL, join.member_id
        if not join.member_id:
            return self._join_first_time(join, now, reply)
        if join.member_id in self._pending:
            if join.instance_id is not None:
                return ErrorCode.INVALID_REQUEST, join.member_id
            self._add(join.member_id, join, now, reply)
            return ErrorCode.NONE, ""
        code = self.members.check(join.member_id, join.instance_id)
        if code:
            return code, join.member_id
        self._join_again(self.members[join.member_id], join, now, reply)
        return ErrorCode.NONE, ""

    def _join_first_time(
        self, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> tuple[ErrorCode, str]:
        member_id = self._new_id(join, now)
        if join.instance_id is None:
            if join.needs_known_id:
                self._pending[member_id] = now + join.session_timeout
                return ErrorCode.MEMBER_ID_REQUIRED, member_id
            self._add(member_id, join, now, reply)
            return ErrorCode.NONE, ""
        old_id = self.members.static(join.instance_id)
        if old_id is None:
            self._add(member_id, join, now, reply)
        else:
            self._replace(self.members[old_id], member_id, join, now, reply)
        return ErrorCode.NONE, ""

    def _join_again(
        self, member: Member, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> None:
        has_changed = member.protocols != join.protocols
        leads_stable = self.state is State.STABLE and member.id == self.leader
        if self.state is State.PREPARING:
            self._await_join(member, join, now, reply)
        elif has_changed or leads_stable:
            self._await_join(member, join, now, reply)
            self._prepare_rebalance(now)
        else:
            self._send(reply, self._joined(member))  # the answer of before was lost

    def _add(self, member_id: str, join: Join, now: float, reply: Callable[[Joined], None]) -> None:
        self._pending.pop(member_id, None)
        if not self.members:
            self.protocol_type = join.protocol_type
        member = Member(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout,
            join.rebalance_timeout,
            join.protocols,
        )
        self.members.admit(member)
        if self.state is State.PREPARING and self.generation == 0:
            self._has_newcomers = True
        member.join_reply, member.deadline = reply, now + NEW_MEMBER_TIMEOUT
        self._prepare_rebalance(now)

    def _await_join(
        self, member: Member, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> None:
        self._answer_join(member, Joined(member_id=member.id, code=ErrorCode.REBALANCE_IN_PROGRESS))
        self.members.offer(member, join.protocols)
        member.session_timeout = join.session_timeout
        member.rebalance_timeout = join.rebalance_timeout
        member.join_reply = reply
        member.deadline = now + NEW_MEMBER_TIMEOUT if member.is_new else None

    def _replace(
        self, member: Member, new_id: str, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> None:
        """A static member has started again: it gets its place, and what it was assigned."""
        old_id, old_leader = member.id, self.leader
        self._answer_join(member, Joined(member_id=old_id, code=ErrorCode.FENCED_INSTANCE_ID))
        self._answer_sync(member, Synced(code=ErrorCode.FENCED_INSTANCE_ID))
        self.members.rename(member, new_id)
        if old_id in self._unsynced:
            self._unsynced = self._unsynced - {old_id} | {new_id}
        before = member.protocols, member.session_timeout, member.rebalance_timeout
        self._await_join(member, join, now, reply)
        if self.state is State.STABLE and self.members.select_protocol() == self.protocol:
            if self._store(self, now):  # then nobody knows of the new id after a restart
                self._answer_join(
                    member, Joined(member_id=new_id, code=ErrorCode.UNKNOWN_SERVER_ERROR)
                )
                protocols, member.session_timeout, member.rebalance_timeout = before
                self.members.offer(member, protocols)
            else:
                self._answer_join(member, self._resumed(member, join, old_leader))
            self._hear_of(member, now)
        else:
            self._prepare_rebalance(now)

    def _resumed(self, member: Member, join: Join, old_leader: str | None) -> Joined:
        """A leader that is back has nothing to assign. Older clients know it by an id of a leader
        that is not theirs."""
        is_leader = member.id == self.leader and join.may_skip_assignment
        return Joined(
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=(self.leader if join.may_skip_assignment else old_leader) or "",
            members=self.members.metadata(self.protocol) if is_leader else (),
            skip_assignment=is_leader,
        )

    def _prepare_rebalance(self, now: float) -> None:
        """Has all members join again, unless they are about to."""
        if self.state in (State.PREPARING, State.DEAD):
            return
        for member in self.members.values():
            if member.sync_reply is not None:
                self._answer_sync(member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS))
                self._hear_of(member, now)
        self._unsynced.clear()
        self._sync_deadline = None
        timeout = self.members.rebalance_timeout
        self._is_initial = self.state is State.EMPTY
        if self._is_initial:
            delay = self._limits.initial_delay
            self._extra_delay, timeout = max(timeout - delay, 0.0), delay
            self._has_newcomers = False
        self.state = State.PREPARING
        self._join_deadline = now + timeout

    def _complete_join_if_all_are_here(self, now: float) -> None:
        if self.state is not State.PREPARING:
            return
        if self._is_initial:
            if self._join_deadline is not None and self._join_deadline <= now:
                self._complete_join(now)
        elif not self._pending and all(one.join_reply for one in self.members.values()):
            self._complete_join(now)

    def _complete_join(self, now: float) -> None:
        """Begins a generation of those who have joined, and of static members who have not."""
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
            self._join_deadline = now + max(self.members.rebalance_timeout, NOBODY_DELAY)
            return
        self._join_deadline = None
        self.generation += 1
        if not self.members:
            self.state, self.protocol, self.empty_since = State.EMPTY, None, now
            self._store(self, now)
            return
        self.state, self.protocol = State.COMPLETING, self.members.select_protocol()
        self._unsynced = set(self.members)
        self._sync_deadline = now + self.members.rebalance_timeout
        for member in self.members.values():
            self._answer_join(member, self._joined(member))
            self._hear_of(member, now)
            member.is_new = False

    # --- assigning

    def _assign(self, assignments: dict[str, bytes], now: float) -> None:
        before = {member.id: member.assignment for member in self.members.values()}
        for member in self.members.values():
            member.assignment = assignments.get(member.id, b"")
        self.state = State.STABLE
        code = self._store(self, now)
        if code:
            self.state = State.COMPLETING
            for member in self.members.values():
                member.assignment = before[member.id]
                if self._answer_sync(member, Synced(code=code)):
                    self._hear_of(member, now)
            self._prepare_rebalance(now)
            return
        for member in self.members.values():
            if self._answer_sync(member, self._synced(member)):
                self._hear_of(member, now)

    # --- members

    def _expel(self, member: Member, now: float) -> None:
        """It is no member any more, and the others join again."""
        self._remove(member)
        if self.state in (State.STABLE, State.COMPLETING):
            self._prepare_rebalance(now)
        self._complete_join_if_all_are_here(now)

    def _remove(self, member: Member) -> None:
        self._answer_join(member, Joined(member_id="", code=ErrorCode.UNKNOWN_MEMBER_ID))
        self._answer_sync(member, Synced(code=ErrorCode.UNKNOWN_MEMBER_ID))
        self._unsynced.discard(member.id)
        self.members.remove(member)

    def _hear_of(self, member: Member, now: float) -> None:
        member.deadline = now + member.session_timeout

    def _check_claim(self, claim: Claim) -> ErrorCode:
        if self.state is State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = self.members.check(claim.member_id, claim.instance_id)
        if not code and claim.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return code

    def _has_room(self, join: Join) -> bool:
        member = self.members.get(join.member_id)
        others = (one.size for one in self.members.values() if one is not member)
        if join.size + sum(others) > self._limits.metadata_max:
            return False
        size_max = self._limits.size_max
        if member is None and not join.member_id and len(self._pending) >= size_max:
            return False
        if self.state is State.PREPARING:
            awaiting = sum(one.join_reply is not None for one in self.members.values())
            return (member is not None and member.join_reply is not None) or awaiting < size_max
        return self.state is State.EMPTY or member is not None or len(self.members) < size_max

    def _supports(self, join: Join) -> bool:
        if self.state is State.EMPTY:
            return bool(join.protocol_type and join.protocols)
        return join.protocol_type == self.protocol_type and self.members.share(join.protocols)

    def _new_id(self, join: Join, now: float) -> str:
        self._ids_count += 1
        name = f"{self.id}/{self.generation}/{self._ids_count}/{now!r}"
        start = join.client_id[:CLIENT_ID_MAX] if join.instance_id is None else join.instance_id
        return f"{start}-{uuid5(NAMESPACE_OID, name)}"

    # --- answers

    def _joined(self, member: Member) -> Joined:
        return Joined(
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            members=self.members.metadata(self.protocol) if member.id == self.leader else (),
        )

    def _synced(self, member: Member) -> Synced:
        return Synced(
            protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment
        )

    def _answer_join(self, member: Member, joined: Joined) -> None:
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self._send(reply, joined)

    def _answer_sync(self, member: Member, synced: Synced) -> bool:
        """Whether it was waiting for one."""
        reply, member.sync_reply = member.sync_reply, None
        if reply is not None:
            self._send(reply, synced)
        return reply is not None

    def _send(self, reply: Callable[[Answer], None], answer: Answer) -> None:
        self.outbox.append(partial(reply, answer))
