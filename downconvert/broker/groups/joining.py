"""How a client becomes a member of a group, and how a member joins again.

A client without a member id gets one. In newer versions it must join again with that id [KIP-394].
A restarted static member, which has an instance id, takes its earlier place [KIP-345].

Not here: the generation that follows (rebalance.py), other requests of members (group.py)."""

from collections.abc import Callable
from typing import Final
from uuid import NAMESPACE_OID, uuid5

from downconvert.protocol.errors import ErrorCode

from .member import Join, Joined, Member, Synced
from .rebalance import GroupLimits, Rebalance, State

# A join is answered when all members have joined. Until then, the broker does not notice that a
# client has gone.
NEW_MEMBER_TIMEOUT: Final = 300.0  # seconds
CLIENT_ID_MAX: Final = 255  # characters of the client id in a member id


class Joining:
    """The joins of one group. Its owner holds a lock around every call."""

    def __init__(self, group_id: str, limits: GroupLimits, rebalance: Rebalance) -> None:
        self._group_id = group_id
        self._limits = limits
        self._rebalance = rebalance
        self._ids_count = 0

    def join(
        self, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> tuple[ErrorCode, str]:
        """Returns an error, and the member id for the response. Without an error, the response
        comes by `reply`."""
        rebalance = self._rebalance
        if not self._has_room(join):
            member = rebalance.members.get(join.member_id)
            if member is not None:
                rebalance.remove_member(member, now)
            rebalance.pending.discard(join.member_id)
            return ErrorCode.GROUP_MAX_SIZE_REACHED, ""
        if not self._supports(join):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL, join.member_id
        if not join.member_id:
            return self._join_first_time(join, now, reply)
        if join.member_id in rebalance.pending:
            if join.instance_id is not None:
                return ErrorCode.INVALID_REQUEST, join.member_id
            self._add(join.member_id, join, now, reply)
            return ErrorCode.NONE, ""
        code = rebalance.members.check(join.member_id, join.instance_id)
        if code:
            return code, join.member_id
        self._join_again(rebalance.members[join.member_id], join, now, reply)
        return ErrorCode.NONE, ""

    def _join_first_time(
        self, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> tuple[ErrorCode, str]:
        rebalance = self._rebalance
        member_id = self._new_id(join, now)
        if join.instance_id is None:
            if join.needs_known_id:
                deadline = now + join.session_timeout
                rebalance.pending.add(member_id, deadline, self._limits.size_max)
                return ErrorCode.MEMBER_ID_REQUIRED, member_id
            self._add(member_id, join, now, reply)
            return ErrorCode.NONE, ""
        old_id = rebalance.members.static(join.instance_id)
        if old_id is None:
            self._add(member_id, join, now, reply)
        else:
            self._replace(rebalance.members[old_id], member_id, join, now, reply)
        return ErrorCode.NONE, ""

    def _join_again(
        self, member: Member, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> None:
        rebalance = self._rebalance
        has_changed = member.protocols != join.protocols
        leads_stable = rebalance.state is State.STABLE and member.id == rebalance.members.leader
        if rebalance.state is State.PREPARING:
            self._await_join(member, join, now, reply)
        elif has_changed or leads_stable:
            self._await_join(member, join, now, reply)
            rebalance.prepare_rebalance(now)
        else:
            rebalance.send(reply, rebalance.joined(member))  # its last response was lost

    def _add(self, member_id: str, join: Join, now: float, reply: Callable[[Joined], None]) -> None:
        rebalance = self._rebalance
        rebalance.pending.discard(member_id)
        if not rebalance.members:
            rebalance.protocol_type = join.protocol_type
        member = Member(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout,
            join.rebalance_timeout,
            join.protocols,
        )
        rebalance.admit(member)
        member.join_reply, member.deadline = reply, now + NEW_MEMBER_TIMEOUT
        rebalance.prepare_rebalance(now)

    def _await_join(
        self, member: Member, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> None:
        rebalance = self._rebalance
        rebalance.answer_join(
            member, Joined(member_id=member.id, code=ErrorCode.REBALANCE_IN_PROGRESS)
        )
        rebalance.members.offer(member, join.protocols)
        member.session_timeout = join.session_timeout
        member.rebalance_timeout = join.rebalance_timeout
        member.join_reply = reply
        member.deadline = now + NEW_MEMBER_TIMEOUT if member.is_new else None

    def _replace(
        self, member: Member, new_id: str, join: Join, now: float, reply: Callable[[Joined], None]
    ) -> None:
        """Gives a restarted static member its old place and assignment."""
        rebalance = self._rebalance
        old_id, old_leader = member.id, rebalance.members.leader
        rebalance.answer_join(member, Joined(member_id=old_id, code=ErrorCode.FENCED_INSTANCE_ID))
        rebalance.answer_sync(member, Synced(code=ErrorCode.FENCED_INSTANCE_ID))
        rebalance.members.rename(member, new_id)
        if old_id in rebalance.unsynced:
            rebalance.unsynced = rebalance.unsynced - {old_id} | {new_id}
        before = member.protocols, member.session_timeout, member.rebalance_timeout
        self._await_join(member, join, now, reply)
        if (
            rebalance.state is State.STABLE
            and rebalance.members.select_protocol() == rebalance.protocol
        ):
            if rebalance.store(now):  # a restart of the broker would lose the new id
                rebalance.answer_join(
                    member, Joined(member_id=new_id, code=ErrorCode.UNKNOWN_SERVER_ERROR)
                )
                protocols, member.session_timeout, member.rebalance_timeout = before
                rebalance.members.offer(member, protocols)
            else:
                rebalance.answer_join(member, self._resumed(member, join, old_leader))
            rebalance.reset_session_timer(member, now)
        else:
            rebalance.prepare_rebalance(now)

    def _resumed(self, member: Member, join: Join, old_leader: str | None) -> Joined:
        """The response to a restarted static member. If it leads, it must not assign again. Old
        versions have no field for that, so the response names the old leader id, which is no longer
        its own."""
        rebalance = self._rebalance
        is_leader = member.id == rebalance.members.leader and join.may_skip_assignment
        return Joined(
            member_id=member.id,
            generation=rebalance.generation,
            protocol_type=rebalance.protocol_type,
            protocol=rebalance.protocol,
            leader=(rebalance.members.leader if join.may_skip_assignment else old_leader) or "",
            members=rebalance.members.metadata(rebalance.protocol) if is_leader else (),
            skip_assignment=is_leader,
        )

    # --- admission

    def _has_room(self, join: Join) -> bool:
        rebalance = self._rebalance
        member = rebalance.members.get(join.member_id)
        others = rebalance.members.size - (0 if member is None else member.size)
        if join.size + others > self._limits.metadata_max:
            return False
        known_id = join.member_id or rebalance.members.static(join.instance_id)
        known = rebalance.members.get(known_id or "")
        more = join.memory if known is None else join.size - known.size
        if not self._limits.memory.has_room(more):
            return False
        size_max = self._limits.size_max
        if rebalance.state is State.PREPARING:
            awaiting = sum(one.join_reply is not None for one in rebalance.members.values())
            return (member is not None and member.join_reply is not None) or awaiting < size_max
        return (
            rebalance.state is State.EMPTY
            or member is not None
            or len(rebalance.members) < size_max
        )

    def _supports(self, join: Join) -> bool:
        rebalance = self._rebalance
        if rebalance.state is State.EMPTY:
            return bool(join.protocol_type and join.protocols)
        return join.protocol_type == rebalance.protocol_type and rebalance.members.share(
            join.protocols
        )

    def _new_id(self, join: Join, now: float) -> str:
        rebalance = self._rebalance
        self._ids_count += 1
        name = f"{self._group_id}/{rebalance.generation}/{self._ids_count}/{now!r}"
        start = join.client_id[:CLIENT_ID_MAX] if join.instance_id is None else join.instance_id
        return f"{start}-{uuid5(NAMESPACE_OID, name)}"
