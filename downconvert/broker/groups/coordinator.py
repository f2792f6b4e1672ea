"""The coordinator of all groups: finds the group that a request is for, and wakes it in time.

Answers are given when no lock is held. Not here: what groups do (group.py), where offsets are kept
(offsets.py)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Final

from downconvert.broker.errors import ErrorCode
from downconvert.broker.wire.schemas import Message

from .group import Group, Limits, State
from .member import Claim, Join, Joined, Synced
from .offsets import Committed, Offsets, Partition

if TYPE_CHECKING:
    from downconvert.broker.broker import Broker

ID_MAX: Final = 0x7FFF  # bytes; older versions and records have no more for a string


class Groups:
    """By id. Any thread may call anything."""

    def __init__(self, broker: "Broker") -> None:
        config = broker.config
        self._purgatory = broker.purgatory
        self._groups_max = config.groups_max
        self._limits = Limits(
            config.group_max_size,
            config.group_metadata_max_bytes,
            config.group_initial_rebalance_delay_ms / 1000,
        )
        self._sessions = (
            config.group_min_session_timeout_ms / 1000,
            config.group_max_session_timeout_ms / 1000,
        )
        self._lock = RLock()
        self._groups: dict[str, Group] = {}
        self._alarms: dict[str, float] = {}
        self._offsets = Offsets(broker)

    # --- members

    def join(self, group_id: str, join: Join, now: float, reply: Callable[[Joined], None]) -> None:
        """Answered at once or later, as the group does."""
        code = _check_id(group_id)
        shortest, longest = self._sessions
        if not code and not shortest <= join.session_timeout <= longest:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        if code:
            reply(Joined(member_id=join.member_id, code=code))
            return
        with self._visit(group_id, now, create=not join.member_id) as group:
            if group is not None:
                group.join(join, now, reply)
        if group is None:
            is_full = not join.member_id
            code = ErrorCode.GROUP_MAX_SIZE_REACHED if is_full else ErrorCode.UNKNOWN_MEMBER_ID
            reply(Joined(member_id=join.member_id, code=code))

    def sync(
        self,
        group_id: str,
        claim: Claim,
        assignments: dict[str, bytes],
        now: float,
        reply: Callable[[Synced], None],
        *,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> None:
        """Answered at once or later, as the group does."""
        code = _check_id(group_id)
        if code:
            reply(Synced(code=code))
            return
        with self._visit(group_id, now) as group:
            if group is not None:
                group.sync(
                    claim, assignments, now, reply, protocol_type=protocol_type, protocol=protocol
                )
        if group is None:
            reply(Synced(code=ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(self, group_id: str, claim: Claim, now: float) -> ErrorCode:
        code = _check_id(group_id)
        if code:
            return code
        with self._visit(group_id, now) as group:
            if group is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return group.heartbeat(claim, now)

    def leave(
        self, group_id: str, leaving: list[tuple[str, str | None]], now: float
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """For each member's id and instance id, whether it was one and has left. An error of all
        comes first, without those of each."""
        code = _check_id(group_id)
        if code:
            return code, []
        with self._visit(group_id, now) as group:
            if group is None:
                return ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID for _ in leaving]
            codes = [group.leave(member_id, instance, now) for member_id, instance in leaving]
            return ErrorCode.NONE, codes

    # --- offsets

    def committed(self, group_id: str, now: float) -> Mapping[Partition, Committed]:
        """All that the group has committed."""
        with self._visit(group_id, now):
            return self._offsets.of(group_id)

    def commit(
        self, group_id: str, claim: Claim, offsets: Mapping[Partition, Committed], now: float
    ) -> ErrorCode:
        """Keeps offsets, or says why not."""
        if len(group_id.encode()) > ID_MAX:
            return ErrorCode.INVALID_GROUP_ID
        with self._visit(group_id, now, create=claim.generation < 0) as group:
            if group is None:
                is_full = claim.generation < 0
                return (
                    ErrorCode.COORDINATOR_NOT_AVAILABLE if is_full else ErrorCode.ILLEGAL_GENERATION
                )
            code = group.check_commit(claim, now)
            return code or self._offsets.commit(group_id, offsets, now)

    # --- all groups

    def ids(self) -> list[str]:
        with self._lock:
            return sorted(self._groups.keys() | self._offsets.ids())

    def look(self, group_id: str, now: float, show: Callable[[Group], Message]) -> Message | None:
        """What is to be told of a group; None: there is none."""
        with self._visit(group_id, now) as group:
            return None if group is None else show(group)

    def delete(self, group_id: str, now: float) -> ErrorCode:
        """Forgets a group without members, and what it has committed."""
        with self._visit(group_id, now) as group:
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if group.state is not State.EMPTY:
                return ErrorCode.NON_EMPTY_GROUP
            code = self._offsets.delete(group, now)
            if not code:
                group.kill()
            return code

    # --- how

    def wake(self, group_id: str, deadline: float, now: float) -> None:
        """What was to be done at a deadline. Purgatory's."""
        with self._lock:
            if self._alarms.get(group_id) != deadline:
                return  # an earlier one was set later, and has done it
            del self._alarms[group_id]
        with self._visit(group_id, now) as group:
            if group is not None:
                group.advance(now)

    @contextmanager
    def _visit(self, group_id: str, now: float, *, create: bool = False) -> Iterator[Group | None]:
        """The group, if there is one, or if it may be made, with the lock around it."""
        with self._lock:
            group = self._groups.get(group_id) or self._open(group_id, now, create)
            yield group
            if group is None:
                return
            answers, group.outbox = group.outbox, []
            deadline = group.next_deadline()
            alarm = self._alarms.get(group_id)
            if deadline is not None and (alarm is None or deadline < alarm):
                self._alarms[group_id] = deadline
            else:
                deadline = None
            if group.is_unused and not self._offsets.has(group_id):
                del self._groups[group_id]
        for answer in answers:
            answer()
        if deadline is not None:
            self._purgatory.watch(_Alarm(self, group_id, deadline), (), now, deadline)

    def _open(self, group_id: str, now: float, create: bool) -> Group | None:
        """A group that is in the log, or a new one if it may be made."""
        stored = self._offsets.stored.pop(group_id, None)
        is_known = stored is not None or self._offsets.has(group_id)
        if not is_known and not (create and len(self._groups) < self._groups_max):
            return None
        group = self._groups[group_id] = Group(group_id, self._limits, self._offsets.store)
        if stored is not None:
            group.restore(stored, now)
        return group


class _Alarm:
    """Wakes a group in the broker's purgatory."""

    __slots__ = ("_deadline", "_group_id", "_groups")

    def __init__(self, groups: Groups, group_id: str, deadline: float) -> None:
        self._groups, self._group_id, self._deadline = groups, group_id, deadline

    def is_due(self) -> bool:
        return False  # at its deadline only

    def complete(self, now: float, *, timed_out: bool) -> None:  # noqa: ARG002
        self._groups.wake(self._group_id, self._deadline, now)


def _check_id(group_id: str) -> ErrorCode:
    if not group_id or len(group_id.encode()) > ID_MAX:
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE
