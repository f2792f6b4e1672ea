"""The coordinator of all groups: handles requests for a group or its offsets.

Members are answered when no lock is held. Not here: the groups in memory and their timers
(group_manager.py), what groups do (group.py), where offsets are kept (offsets.py)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from downconvert.broker.config import BrokerConfig
from downconvert.broker.partition import CheckBatch
from downconvert.broker.purgatory import Purgatory
from downconvert.broker.time_of_day import TimeOfDay
from downconvert.protocol.errors import NONE, ErrorCode
from downconvert.protocol.schemas import Message
from records.logged import log_of

from .group import Group
from .group_manager import GroupManager
from .member import Join, Joined, MemberIdentity, Synced
from .offset_expiry import CONSUMER, subscribed_topics
from .offsets import Committed, Offsets, Partition
from .rebalance import State

LOG: Final = log_of(__name__)


class Groups:
    """The requests for a broker's groups. Thread-safe. topic: `__consumer_offsets`. The leader of a
    partition coordinates the groups of that partition."""

    def __init__(
        self,
        config: BrokerConfig,
        offsets: Offsets,
        purgatory: Purgatory,
        time_of_day: TimeOfDay,
    ) -> None:
        self.manager = GroupManager(config, offsets, purgatory, time_of_day)
        self.topic = offsets.topic
        self._offsets = offsets
        self._lock = self.manager.lock
        shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        self._sessions = shortest / 1000, longest / 1000

    # --- members

    def join(self, group_id: str, join: Join, now: float, reply: Callable[[Joined], None]) -> None:
        """The response comes at once or later, from the group."""
        code = self._check(group_id)
        shortest, longest = self._sessions
        if not code and not shortest <= join.session_timeout <= longest:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        if code:
            reply(Joined(member_id=join.member_id, code=code))
            return
        with self.manager.locked_group(group_id, now, create=not join.member_id) as group:
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
        """The response comes at once or later, from the group."""
        code = self._check(group_id)
        if code:
            reply(Synced(code=code))
            return
        with self.manager.locked_group(group_id, now) as group:
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
            group = self.manager.groups.get(group_id) or self.manager.open(group_id, now)
            if group is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            code = group.heartbeat(identity, now)
            responses = self.manager.settled(group, now, identity.member_id)
        for response in responses:
            response()
        return code

    def leave(
        self, group_id: str, leaving: list[tuple[str, str | None]], now: float
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """Removes members, each named by member id and instance id. Returns an error for the
        request, or NONE and one code for each member."""
        code = self._check(group_id)
        if code:
            return code, []
        with self.manager.locked_group(group_id, now) as group:
            if group is None:
                return NONE, [ErrorCode.UNKNOWN_MEMBER_ID for _ in leaving]
            codes = [group.leave(member_id, instance, now) for member_id, instance in leaving]
            return NONE, codes

    # --- offsets

    def offsets_partitions_added(self, before: int) -> None:
        """`__consumer_offsets` has got more partitions, so groups move to others."""
        with self._lock:
            self._offsets.partitions_added(before, self.manager.groups.keys())

    def committed(
        self, group_id: str, now: float
    ) -> tuple[Mapping[Partition, Committed], Collection[Partition]]:
        """The group's committed offsets, and the partitions with offsets in an open transaction."""
        with self.manager.locked_group(group_id, now):
            return self._offsets.kept.of(group_id), self._offsets.kept.pending(group_id)

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
        manager = self.manager
        with self._lock:
            group = manager.groups.get(group_id) or manager.open(group_id, now, create=may_create)
            if group is None:
                codes = ErrorCode.ILLEGAL_GENERATION, ErrorCode.COORDINATOR_NOT_AVAILABLE
                return codes[may_create]
            if producer is None:
                code = group.check_commit(identity, now)
            else:
                code = group.check_commit_in_transaction(identity)
            if not code:
                code = self._offsets.commit(group_id, offsets, now, producer=producer, check=check)
            responses = self.manager.settled(group, now, identity.member_id)
        for response in responses:
            response()
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
        return (code, -1) if code else self.topic.ensure(group_id, now)

    def delete_offsets(
        self, group_id: str, partitions: Iterable[Partition], now: float
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        """Forgets the group's offsets in these partitions, except in topics that its members read.
        Returns an error for the request, or NONE and an error for each partition."""
        code = self._check(group_id)
        if code:
            return code, {}
        with self.manager.locked_group(group_id, now) as group:
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND, {}
            read: Collection[str] | None = ()
            if group.state is not State.EMPTY:
                if group.protocol_type != CONSUMER:
                    return ErrorCode.NON_EMPTY_GROUP, {}
                read = subscribed_topics(group)
            codes = {
                partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                if read is None or partition[0] in read
                else NONE
                for partition in partitions
            }
            free = [partition for partition, code in codes.items() if not code]
            code = self._offsets.remove(group_id, free, now)
            if free and not code:
                code = self.manager.end_if_unused(group, now)
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
            self.manager.expire_group(group_id, now, expires=False)

    def forget_dead_groups(self, now: float) -> None:
        """Forgets all groups without members and offsets, as Kafka does when it deletes a topic."""
        for group_id in self.manager.ids():
            self.manager.expire_group(group_id, now, expires=False)

    # --- all groups

    def positions(self) -> list[tuple[str, str, int, int]]:
        """All committed offsets: group, topic, partition, offset."""
        with self._lock:
            return [
                (group_id, topic, index, one.offset)
                for group_id in self._offsets.ids()
                for (topic, index), one in self._offsets.kept.of(group_id).items()
            ]

    def look(self, group_id: str, now: float, show: Callable[[Group], Message]) -> Message | None:
        """The description of a group that `show` makes; None: there is no such group."""
        with self.manager.locked_group(group_id, now) as group:
            return None if group is None else show(group)

    def delete(self, group_id: str, now: float) -> ErrorCode:
        """Forgets a group without members, with its offsets."""
        code = self._check(group_id, may_be_empty=True)
        if code:
            return code
        with self.manager.locked_group(group_id, now) as group:
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            if group.state is not State.EMPTY:
                return ErrorCode.NON_EMPTY_GROUP
            code = self._offsets.delete(group, now)
            if not code:
                group.kill()
            return code

    # --- details

    def _check(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
        if not (group_id or may_be_empty):
            return ErrorCode.INVALID_GROUP_ID
        if self.topic.is_led_elsewhere(group_id):
            return ErrorCode.NOT_COORDINATOR
        return NONE
