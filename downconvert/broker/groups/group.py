"""One group: the requests of its members.

Metadata and assignments are opaque bytes here. There is no I/O and no clock: `now` is an argument,
in seconds. Responses are collected in `outbox`. The owner takes them from there, and calls them
while it holds no lock. The owner calls `advance` at `next_deadline`.

The rules and error codes are those of Kafka 3.9's GroupCoordinator.

Not here: admission of members (joining.py), the change of generations (rebalance.py), all groups
(coordinator.py), committed offsets (offsets.py)."""

from collections.abc import Callable
from functools import partial

from downconvert.internal_topics.group_records import NO_TIME, StoredGroup
from downconvert.protocol.errors import NONE, ErrorCode

from .joining import Joining
from .member import Join, Joined, Member, MemberIdentity, Synced
from .rebalance import DEAD, EMPTY, PREPARING, GroupLimits, Rebalance, State


class Group(Rebalance):
    """A group. Its owner holds a lock around every call."""

    def __init__(
        self,
        group_id: str,
        limits: GroupLimits,
        store: Callable[["Group", float], ErrorCode],
    ) -> None:
        """`store`: writes the group's state. It gets the time, and returns an error code."""
        super().__init__(limits, partial(store, self))
        self.id = group_id
        self._joining = Joining(group_id, limits, self)

    # --- requests of members

    def join(self, join: Join, now: float, reply: Callable[[Joined], None]) -> None:
        """A client becomes a member, or a member joins again. The response comes at once or
        later."""
        code, member_id = self._joining.join(join, now, reply)
        if code:
            self.send(reply, Joined(member_id=member_id, code=code))
        self.maybe_complete_join(now)

    def sync(
        self,
        identity: MemberIdentity,
        assignments: dict[str, bytes],
        now: float,
        reply: Callable[[Synced], None],
        *,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> None:
        """Takes assignments from the leader, and gives each member its own. The response comes at
        once or later."""
        code = self._check_identity(identity)
        if not code and (
            (protocol_type is not None and protocol_type != self.protocol_type)
            or (protocol is not None and protocol != self.protocol)
        ):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not code and self.state is PREPARING:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code:
            self.send(reply, Synced(code=code))
            return
        member = self.members[identity.member_id]
        self.unsynced.discard(member.id)
        if self.state is State.STABLE:
            self.send(reply, self.synced(member))
            self.reset_session_timer(member, now)
            return
        self.answer_sync(
            member, Synced(code=ErrorCode.REBALANCE_IN_PROGRESS)
        )  # the assignments are of an earlier generation
        member.sync_reply, member.deadline = reply, None
        if member.id == self.leader:
            self.assign(assignments, now)

    def heartbeat(self, identity: MemberIdentity, now: float) -> ErrorCode:
        code = self._check_identity(identity)
        if code:
            return code
        self.reset_session_timer(self.members.by_id[identity.member_id], now)
        if self.state is PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return NONE

    def leave(self, member_id: str, instance_id: str | None, now: float) -> ErrorCode:
        """Removes a member. A static member may be named by its instance id alone."""
        if not member_id:
            member_id = self.members.static(instance_id) or ""
        elif member_id in self.pending:
            self.pending.discard(member_id)
            self.maybe_complete_join(now)
            return NONE
        code = self.members.check(member_id, instance_id)
        if not code:
            self.remove_member(self.members[member_id], now)
        return code

    def check_commit_in_transaction(self, identity: MemberIdentity) -> ErrorCode:
        """Whether a producer may commit offsets for a member with this identity. Without an
        identity it may, because the transaction fences the producer [KIP-447]."""
        if self.state is EMPTY and identity.generation < 0:
            return NONE
        has_identity = (
            identity.generation >= 0 or identity.member_id or identity.instance_id is not None
        )
        return self._check_identity(identity) if has_identity else NONE

    def check_commit(self, identity: MemberIdentity, now: float) -> ErrorCode:
        """Whether a client with this identity may commit offsets."""
        state = self.state
        if state is EMPTY and identity.generation < 0:
            return NONE  # a consumer without group management
        if identity.generation < 0 and not identity.member_id and identity.instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        code = self._check_identity(identity)
        if code:
            return code
        self.reset_session_timer(self.members.by_id[identity.member_id], now)
        if state is State.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return NONE

    # --- state

    @property
    def leader(self) -> str | None:
        """The id of the member that leads, if there is any member."""
        return self.members.leader

    @property
    def is_unused(self) -> bool:
        """Whether there has never been a generation, and no client is about to join."""
        return self.state is DEAD or (
            self.state is EMPTY and not self.generation and not self.pending
        )

    def kill(self) -> None:
        """Marks an empty group as dead. No later request finds it, because its manager forgets it
        before the lock is released."""
        assert self.state is EMPTY
        self.state = DEAD
        self.pending.clear()

    def restore(self, stored: StoredGroup, now: float) -> None:
        """Restores the stored state. Session timeouts of its members start now. A damaged record
        may have several members with one id or instance id. The last one counts."""
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        by_id = {one.id: one for one in stored.members}
        by_instance = {one.instance_id or (one.id,): one for one in by_id.values()}
        for member in (Member.restored(one, stored.protocol) for one in by_instance.values()):
            self.members.admit(member)
            member.is_new = False
            self.reset_session_timer(member, now)
        if self.members:
            self.state, self.protocol = State.STABLE, stored.protocol
        elif stored.time != NO_TIME:
            self.empty_since = stored.time / 1000
        if stored.leader in self.members:
            self.members.leader = stored.leader

    # --- details

    def _check_identity(self, identity: MemberIdentity) -> ErrorCode:
        code = self.members.check(identity.member_id, identity.instance_id)
        if not code and identity.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return code
