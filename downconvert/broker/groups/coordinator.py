"""The coordinator of all groups: finds the group that a request is for, and runs its timers.

Members are answered when no lock is held. Not here: what groups do (group.py), where offsets are
kept (offsets.py)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Final

from downconvert.broker.config import BrokerConfig
from downconvert.broker.partition import CheckBatch
from downconvert.broker.purgatory import Purgatory
from downconvert.broker.time_of_day import TimeOfDay
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.schemas import Message
from records.logged import log_of

from .group import Group
from .member import Join, Joined, MemberIdentity, Synced
from .member_memory import MemberMemory
from .offset_expiry import CONSUMER, expired, subscribed_topics
from .offsets import Committed, Offsets, Partition
from .rebalance import GroupLimits, State

LOG: Final = log_of(__name__)
ID_MAX: Final = 0x7FFF  # bytes: the longest string in older versions and in records


class Groups:
    """The groups of a broker, by id. Thread-safe."""

    def __init__(
        self,
        config: BrokerConfig,
        offsets: Offsets,
        purgatory: Purgatory,
        time_of_day: TimeOfDay,
    ) -> None:
        self._offsets = offsets
        self._time_of_day = time_of_day
        self._purgatory = purgatory
        self._groups_max = config.groups_max
        self._limits = GroupLimits(
            config.group_max_size,
            config.group_metadata_max_bytes,
            config.group_initial_rebalance_delay_ms / 1000,
            MemberMemory(config.groups_memory_max_bytes),
        )
        shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        self._sessions = shortest / 1000, longest / 1000
        self._lock = RLock()
        self._groups: dict[str, Group] = {}
        self._deadlines: dict[str, float] = {}  # of each group's next call by the purgatory
        self._is_writable = config.is_writable
        self._retention = 60.0 * config.offsets_retention_minutes
        self._check_interval = config.offsets_retention_check_interval_ms / 1000
        self._is_armed = False

    # --- members

    def join(self, group_id: str, join: Join, now: float, reply: Callable[[Joined], None]) -> None:
        """The answer comes at once or later, from the group."""
        code = self._check(group_id)
        shortest, longest = self._sessions
        if not code and not shortest <= join.session_timeout <= longest:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        if code:
            reply(Joined(member_id=join.member_id, code=code))
            return
        with self._locked_group(group_id, now, create=not join.member_id) as group:
            if group is not None:
                group.join(join, now, reply)
        if group is None:
            code = (
                ErrorCode.UNKNOWN_MEMBER_ID if join.member_id else ErrorCode.GROUP_MAX_SIZE_REACHED
            )
            reply(Joined(member_id=join.member_id, code=code))

    def sync(
        self,
        group_id: str,
        identity: MemberIdentity,
        assignments: dict[str, bytes],
        now: float,
        reply: Callable[[Synced], None],
        *,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> None:
        """The answer comes at once or later, from the group."""
        code = self._check(group_id)
        if code:
            reply(Synced(code=code))
            return
        with self._locked_group(group_id, now) as group:
            if group is not None:
                call = identity, assignments, now, reply
                group.sync(*call, protocol_type=protocol_type, protocol=protocol)
        if group is None:
            reply(Synced(code=ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(self, group_id: str, identity: MemberIdentity, now: float) -> ErrorCode:
        code = self._check(group_id)
        if code:
            return code
        with self._lock:
            group = self._groups.get(group_id) or self._open(group_id, now)
            if group is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            code = group.heartbeat(identity, now)
            answers = self._settled(group, now, identity.member_id)
        for answer in answers:
            answer()
        return code

    def leave(
        self, group_id: str, leaving: list[tuple[str, str | None]], now: float
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """Removes members, each named by member id and instance id. Returns an error for the
        request, or NONE and one code for each member."""
        code = self._check(group_id)
        if code:
            return code, []
        with self._locked_group(group_id, now) as group:
            if group is None:
                return ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID for _ in leaving]
            codes = [group.leave(member_id, instance, now) for member_id, instance in leaving]
            return ErrorCode.NONE, codes

    # --- offsets

    @property
    def partitions_count(self) -> int:
        """The partitions of `__consumer_offsets`."""
        return self._offsets.topic.count

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds the group's offsets."""
        return self._offsets.topic.partition_of(group_id)

    def offsets_partitions_added(self, before: int) -> None:
        """`__consumer_offsets` has got more partitions, so groups move to others."""
        with self._lock:
            self._offsets.partitions_added(before, self._groups.keys())

    def is_elsewhere(self, group_id: str) -> bool:
        """Whether another broker coordinates the group, because it leads the partition that holds
        the group's offsets."""
        return self._offsets.topic.is_led_elsewhere(group_id)

    def committed(
        self, group_id: str, now: float
    ) -> tuple[Mapping[Partition, Committed], Collection[Partition]]:
        """The group's committed offsets, and the partitions with offsets in an open transaction."""
        with self._locked_group(group_id, now):
            return self._offsets.of(group_id), self._offsets.pending(group_id)

    def commit(
        self,
        group_id: str,
        identity: MemberIdentity,
        offsets: Mapping[Partition, Committed],
        now: float,
        *,
        producer: tuple[int, int] | None = None,
        check: CheckBatch | None = None,
    ) -> ErrorCode:
        """Commits offsets, or returns an error. `producer` and `check`: see `Offsets.commit`."""
        code = self._check(group_id, may_be_empty=producer is None)
        if code:
            return code
        may_create = identity.generation < 0
        with self._lock:
            group = self._groups.get(group_id) or self._open(group_id, now, create=may_create)
            if group is None:
                codes = ErrorCode.ILLEGAL_GENERATION, ErrorCode.COORDINATOR_NOT_AVAILABLE
                return codes[may_create]
            if producer is None:
                code = group.check_commit(identity, now)
            else:
                code = group.check_commit_in_transaction(identity)
            if not code:
                code = self._offsets.commit(group_id, offsets, now, producer=producer, check=check)
            answers = self._settled(group, now, identity.member_id)
        for answer in answers:
            answer()
        return code

    def end_transaction(
        self, index: int, producer_id: int, write_marker: Callable[[], None], *, committed: bool
    ) -> None:
        """As `Offsets.end_transaction`."""
        with self._lock:
            self._offsets.end_transaction(index, producer_id, write_marker, committed=committed)

    def ensure_partition(self, group_id: str, now: float) -> tuple[ErrorCode, int]:
        """Creates `__consumer_offsets` if needed. Returns an error, or NONE and the partition that
        holds the group's offsets."""
        code = self._check(group_id, may_be_empty=True)
        return (code, -1) if code else self._offsets.topic.ensure(group_id, now)

    def delete_offsets(
        self, group_id: str, partitions: Iterable[Partition], now: float
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        """Forgets the group's offsets in these partitions, except in topics that its members read.
        Returns an error for the request, or NONE and an error for each partition."""
        code = self._check(group_id)
        if code:
            return code, {}
        with self._locked_group(group_id, now) as group:
            if group is None or group.state is State.DEAD:
                return ErrorCode.GROUP_ID_NOT_FOUND, {}
            read: Collection[str] | None = ()
            if group.state is not State.EMPTY:
                if group.protocol_type != CONSUMER:
                    return ErrorCode.NON_EMPTY_GROUP, {}
                read = subscribed_topics(group)
            codes = {
                partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                if read is None or partition[0] in read
                else ErrorCode.NONE
                for partition in partitions
            }
            free = [partition for partition, code in codes.items() if not code]
            code = self._offsets.remove(group_id, free, now)
            if free and not code:
                code = self._end_if_unused(group, now)
            return code, codes

    def forget_topics(self, names: Collection[str], now: float) -> None:
        """Forgets all groups' offsets in topics that are deleted, or about to be created."""
        if not names:
            return
        with self._lock:
            changed = self._offsets.forget_topics(names, now)
        if changed:
            topics = ", ".join(sorted(names))
            LOG.info("%d groups have lost their offsets in %s", len(changed), topics)
        for group_id in changed:
            self._expire_group(group_id, now, expires=False)

    def forget_dead_groups(self, now: float) -> None:
        """Forgets all groups without members and offsets, as Kafka does when it deletes a topic."""
        for group_id in self.ids():
            self._expire_group(group_id, now, expires=False)

    # --- all groups

    @property
    def memory(self) -> MemberMemory:
        """The memory that the members of all groups take."""
        return self._limits.memory

    def ids(self) -> list[str]:
        with self._lock:
            return sorted(self._groups.keys() | self._offsets.ids())

    def positions(self) -> list[tuple[str, str, int, int]]:
        """All committed offsets: group, topic, partition, offset."""
        with self._lock:
            return [
                (group_id, topic, index, one.offset)
                for group_id in self._offsets.ids()
                for (topic, index), one in self._offsets.of(group_id).items()
            ]

    def look(self, group_id: str, now: float, show: Callable[[Group], Message]) -> Message | None:
        """The description of a group that `show` makes; None: there is no such group."""
        with self._locked_group(group_id, now) as group:
            return None if group is None else show(group)

    def delete(self, group_id: str, now: float) -> ErrorCode:
        """Forgets a group without members, with its offsets."""
        code = self._check(group_id, may_be_empty=True)
        if code:
            return code
        with self._locked_group(group_id, now) as group:
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if group.state is not State.EMPTY:
                return ErrorCode.NON_EMPTY_GROUP
            code = self._offsets.delete(group, now)
            if not code:
                group.kill()
            return code

    def expire(self, now: float) -> None:
        """Forgets expired offsets, and then groups without offsets."""
        for group_id in self.ids():
            self._expire_group(group_id, now)

    # --- how

    def _expire_group(self, group_id: str, now: float, *, expires: bool = True) -> None:
        with self._locked_group(group_id, now) as group:
            if group is None:
                return
            if expires:
                offsets = self._offsets.of(group_id)
                old = expired(group, offsets, self._time_of_day.at(now), self._retention)
                pending = self._offsets.pending(group_id)
                old = [at for at in old if at not in pending]
                if old and not self._offsets.remove(group_id, old, now):
                    LOG.info("group %s: %d offsets have expired", group_id, len(old))
            self._end_if_unused(group, now)

    def _end_if_unused(self, group: Group, now: float) -> ErrorCode:
        """Forgets a group if it has neither members nor offsets any more."""
        is_unused = group.state is State.EMPTY and not self._offsets.has(group.id)
        if not is_unused or not group.generation:
            return ErrorCode.NONE
        code = self._offsets.delete(group, now)
        if not code:
            group.kill()
        return code

    def _advance(self, group_id: str, deadline: float, now: float) -> None:
        """Runs a group's timers at a deadline."""
        with self._lock:
            if self._deadlines.get(group_id) != deadline:
                return  # an earlier deadline was set, and its call has run the timers
            del self._deadlines[group_id]
        with self._locked_group(group_id, now) as group:
            if group is not None:
                group.advance(now)

    def _check(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
        if not (group_id or may_be_empty) or len(group_id.encode()) > ID_MAX:
            return ErrorCode.INVALID_GROUP_ID
        if self._offsets.topic.is_led_elsewhere(group_id):
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def _arm(self, now: float) -> None:
        """Sets the next check for expired offsets. The first request for a group calls this, and
        then each check while groups exist. A broker that only reads forgets nothing."""
        if self._is_armed or not self._is_writable:
            return
        with self._lock:
            if self._is_armed:
                return
            self._is_armed = True
        self._purgatory.call_at(now + self._check_interval, self._check_retention, now)

    def _check_retention(self, now: float) -> None:
        """Forgets expired offsets, and sets the next check."""
        try:
            self.expire(now)
        finally:  # also after an unexpected error
            with self._lock:
                self._is_armed = False
            if self.ids():
                self._arm(now)

    @contextmanager
    def _locked_group(
        self, group_id: str, now: float, *, create: bool = False
    ) -> Iterator[Group | None]:
        """The group, with the lock held. None: there is no such group, and none may be made."""
        with self._lock:
            group = self._groups.get(group_id) or self._open(group_id, now, create=create)
            yield group
            answers = [] if group is None else self._settled(group, now, None)
        for answer in answers:
            answer()

    def _settled(self, group: Group, now: float, member_id: str | None) -> list[Callable[[], None]]:
        """Ends a request of a group. Returns the answers to call after the lock is released.
        `member_id`: only this member's timer has changed, so the other timers are not compared."""
        group_id, answers, is_unused = group.id, group.take_answers(), group.is_unused
        known = self._deadlines.get(group_id)
        if is_unused:
            deadline = None  # no client has joined or is about to
        elif known is None or member_id is None:
            deadline = group.next_deadline()
        else:
            deadline = group.deadline_of(member_id)
        if deadline is not None and (known is None or deadline < known):
            self._deadlines[group_id] = deadline
            advance = partial(self._advance, group_id, deadline)
            answers.append(partial(self._purgatory.call_at, deadline, advance, now))
        if is_unused and not self._offsets.has(group_id):
            del self._groups[group_id]
        if not self._is_armed:
            answers.append(partial(self._arm, now))
        return answers

    def _open(self, group_id: str, now: float, *, create: bool = False) -> Group | None:
        """A group from the log, or a new one if `create` and the maximum allow it."""
        stored = self._offsets.stored.pop(group_id, None)
        is_known = stored is not None or self._offsets.has(group_id)
        if not is_known and not (create and len(self._groups) < self._groups_max):
            return None
        group = self._groups[group_id] = Group(group_id, self._limits, self._offsets.store)
        if stored is not None:
            group.restore(stored, now)
        return group
