"""The groups in memory: reads them from what is stored, runs their timers, and forgets unused ones.

Not here: requests (coordinator.py), what groups do (group.py), where offsets are kept
(offsets.py)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from sys import getsizeof
from threading import RLock
from typing import Final

from downconvert.broker.config import BrokerConfig
from downconvert.broker.purgatory import Purgatory
from downconvert.broker.time_of_day import TimeOfDay
from downconvert.protocol.errors import ErrorCode
from records.logged import log_of

from .group import Group
from .member_memory import MemberMemory
from .offset_expiry import expired
from .offsets import Offsets
from .rebalance import GroupLimits, State

LOG: Final = log_of(__name__)


class GroupManager:
    """The groups by id, as in Kafka's GroupMetadataManager. Thread-safe. `lock`: held around every
    call of a group or of `offsets`."""

    def __init__(
        self,
        config: BrokerConfig,
        offsets: Offsets,
        purgatory: Purgatory,
        time_of_day: TimeOfDay,
    ) -> None:
        self.lock = RLock()
        self.offsets = offsets
        self.limits = GroupLimits(
            config.group_max_size,
            config.group_metadata_max_bytes,
            config.group_initial_rebalance_delay_ms / 1000,
            MemberMemory(config.groups_memory_max_bytes),
        )
        self.groups: dict[str, Group] = {}
        self._time_of_day = time_of_day
        self._purgatory = purgatory
        self._groups_max = config.groups_max
        self._deadlines: dict[str, float] = {}  # of each group's next call by the purgatory
        self._is_writable = config.is_writable
        self._retention = 60.0 * config.offsets_retention_minutes
        self._check_interval = config.offsets_retention_check_interval_ms / 1000
        self._is_armed = False

    def ids(self) -> list[str]:
        with self.lock:
            return sorted(self.groups.keys() | self.offsets.ids())

    @contextmanager
    def locked_group(
        self, group_id: str, now: float, *, create: bool = False
    ) -> Iterator[Group | None]:
        """The group, with the lock held. None: there is no such group, and none may be made."""
        with self.lock:
            group = self.groups.get(group_id) or self.open(group_id, now, create=create)
            yield group
            responses = [] if group is None else self.settled(group, now, None)
        for response in responses:
            response()

    def settled(self, group: Group, now: float, member_id: str | None) -> list[Callable[[], None]]:
        """Ends a request of a group. Returns the responses to call after the lock is released.
        `member_id`: only this member's timer has changed, so the other timers are not compared."""
        group_id, is_unused = group.id, group.is_unused
        responses, group.outbox = group.outbox, []
        known = self._deadlines.get(group_id)
        only = None if known is None else member_id
        deadline = None if is_unused else group.next_deadline(only)
        if deadline is not None and (known is None or deadline < known):
            self._deadlines[group_id] = deadline
            advance = partial(self._advance, group_id, deadline)
            responses.append(partial(self._purgatory.call_at, deadline, advance, now))
        if is_unused and group_id not in self.offsets.kept:
            del self.groups[group_id]
            self.limits.memory.size -= getsizeof(group_id)
        if not self._is_armed:
            responses.append(partial(self._arm, now))
        return responses

    def open(self, group_id: str, now: float, *, create: bool = False) -> Group | None:
        """A group from the log, or a new one if `create` and the maximum allow it."""
        stored = self.offsets.stored.pop(group_id, None)
        is_known = stored is not None or group_id in self.offsets.kept
        size, memory = getsizeof(group_id), self.limits.memory
        if not is_known and not (
            create and len(self.groups) < self._groups_max and memory.has_room(size)
        ):
            return None
        memory.size += size
        group = self.groups[group_id] = Group(group_id, self.limits, self.offsets.store)
        if stored is not None:
            group.restore(stored, now)
        return group

    def _advance(self, group_id: str, deadline: float, now: float) -> None:
        """Runs a group's timers at a deadline."""
        with self.lock:
            if self._deadlines.get(group_id) != deadline:
                return  # an earlier deadline was set, and its call has run the timers
            del self._deadlines[group_id]
        with self.locked_group(group_id, now) as group:
            if group is not None:
                group.advance(now)

    # --- forgetting groups and offsets

    def expire(self, now: float) -> None:
        """Forgets expired offsets, and then groups without offsets."""
        for group_id in self.ids():
            self.expire_group(group_id, now)

    def expire_group(self, group_id: str, now: float, *, expires: bool = True) -> None:
        with self.locked_group(group_id, now) as group:
            if group is None:
                return
            if expires:
                offsets = self.offsets.kept.of(group_id)
                old = expired(group, offsets, self._time_of_day.at(now), self._retention)
                pending = self.offsets.kept.pending(group_id)
                old = [at for at in old if at not in pending]
                if old and not self.offsets.remove(group_id, old, now):
                    LOG.info("group %s: %d offsets have expired", group_id, len(old))
            self.end_if_unused(group, now)

    def end_if_unused(self, group: Group, now: float) -> ErrorCode:
        """Forgets a group if it has neither members nor offsets any more."""
        is_unused = group.state is State.EMPTY and group.id not in self.offsets.kept
        if not is_unused or not group.generation:
            return ErrorCode.NONE
        code = self.offsets.delete(group, now)
        if not code:
            group.kill()
        return code

    def _arm(self, now: float) -> None:
        """Sets the next check for expired offsets. The first request for a group calls this, and
        then each check while groups exist. A broker that only reads forgets nothing."""
        if self._is_armed or not self._is_writable:
            return
        with self.lock:
            if self._is_armed:
                return
            self._is_armed = True
        self._purgatory.call_at(now + self._check_interval, self._check_retention, now)

    def _check_retention(self, now: float) -> None:
        """Forgets expired offsets, and sets the next check."""
        try:
            self.expire(now)
        finally:  # also after an unexpected error
            with self.lock:
                self._is_armed = False
            if self.ids():
                self._arm(now)
