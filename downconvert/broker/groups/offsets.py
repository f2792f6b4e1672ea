"""Committed offsets, and the state of groups: in memory, and in `__consumer_offsets`.

A writable broker stores them in that topic, as Kafka does, and creates the topic when it is first
needed. A read-only broker starts with the offsets that the directory's broker has stored. It has no
members, because these are that broker's, and its commits stay in memory.

Not here: the format of the records (internal_topics/group_records.py), their place
(offsets_topic.py), the effect of transactions (committed_offsets.py), checks of commits (group.py),
compaction (storage)."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from downconvert.broker.internal_topic import partition_of
from downconvert.broker.partition import CheckBatch
from downconvert.broker.time_of_day import TimeOfDay
from downconvert.broker.topics import OFFSETS_TOPIC, Topics
from downconvert.internal_topics.cursor import UnreadableRecordError
from downconvert.internal_topics.group_records import (
    NO_ID,
    NO_TIME,
    Committed,
    Partition,
    RecordKey,
    StoredGroup,
    read_committed,
    read_group,
    read_key,
    write_committed,
    write_group,
    write_key,
    write_offset_key,
)
from downconvert.protocol.errors import NONE, ErrorCode
from downconvert.storage.names import OFFSET_MAX
from records import Record
from records.logged import log_of

from .committed_offsets import CommittedOffsets, Producer
from .group import Group
from .offsets_topic import OffsetsTopic
from .rebalance import State

__all__ = ["NO_TIME", "Committed", "Offsets", "Partition"]

LOG: Final = log_of(__name__)
SHOWN_MAX: Final = 60  # partitions that one line of the log names
TOO_LARGE: Final = ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE


class Offsets:
    """Committed offsets by group. The caller holds a lock around every call."""

    def __init__(
        self,
        topic: OffsetsTopic,
        topics: Topics,
        time_of_day: TimeOfDay,
        *,
        is_writable: bool,
    ) -> None:
        """Reads what is stored. Damaged parts are left out, with a line in the log."""
        self.topic = topic
        self._topics = topics
        self._time_of_day = time_of_day
        self._is_writable = is_writable
        self.kept = CommittedOffsets()
        # By group: other partitions with its records, written while the topic had fewer partitions.
        self._strays: defaultdict[str, set[int]] = defaultdict(set)
        self.stored: dict[str, StoredGroup] = {}  # groups without a request yet
        found_in = self._read_all()
        self._log_problems(found_in)

    def partitions_added(self, before: int, groups: Iterable[str]) -> None:
        """The topic has more partitions. `before`: the earlier number. `groups`: groups that have
        written, besides those with offsets."""
        for group_id in self.ids() | set(groups):
            index = partition_of(group_id, before)
            if index != self.topic.partition_of(group_id):
                self._strays[group_id].add(index)

    def ids(self) -> set[str]:
        """Groups with committed offsets, or with stored members."""
        return self.kept.ids() | self.stored.keys()

    def commit(
        self,
        group_id: str,
        offsets: Mapping[Partition, Committed],
        now: float,
        *,
        producer: tuple[int, int] | None = None,
        check: CheckBatch | None = None,
    ) -> ErrorCode:
        """Commits all offsets, or none. `now` in seconds. `producer`: an id and an epoch; the
        offsets then count when its transaction is committed. `check`: checks that the transaction
        is open."""
        if not offsets:
            return NONE
        records, topics = [], self._topics.by_name
        for at, one in offsets.items():
            if at[0] not in topics:  # just deleted
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            records.append((write_offset_key(group_id, at), write_committed(one)))
        position = OFFSET_MAX
        # Computed once, because the transaction's marker comes to this partition, even if
        # partitions are added meanwhile.
        index = partition_of(group_id, self.topic.count)
        if self._is_writable:
            code, position = self.topic.append_to(
                index, records, now, producer=producer, check=check
            )
            if code:
                return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in TOO_LARGE else code
        pending = None if producer is None else (index, producer[0])
        for at, one in offsets.items():
            self.kept.put(group_id, at, one, position, pending)
            position += 1
        return NONE

    def end_transaction(
        self, index: int, producer_id: int, write_marker: Callable[[], None], *, committed: bool
    ) -> None:
        """Writes a transaction's marker to a partition of the topic, and then applies or drops the
        transaction's offsets there. If `write_marker` raises, nothing has changed."""
        write_marker()
        self.kept.end((index, producer_id), committed=committed)

    def store(self, group: Group, now: float) -> ErrorCode:
        """Writes a group's state, so that a restart restores it."""
        if not self._is_writable:
            return NONE
        if group.state is State.EMPTY:
            group.empty_since = self._time_of_day.at(now)  # as a restart would read it
        stored = StoredGroup(
            group.protocol_type or "",
            group.generation,
            group.protocol,
            group.leader if group.members else None,
            self._time_of_day.ms(now),
            tuple(member.stored(group.protocol) for member in group.members.values()),
        )
        index = self.topic.partition_of(group.id)
        code, _ = self.topic.append_to(
            index, [(write_key(RecordKey(group.id)), write_group(stored))], now
        )
        return ErrorCode.UNKNOWN_SERVER_ERROR if code in TOO_LARGE else code

    def delete(self, group: Group, now: float) -> ErrorCode:
        """Forgets a group, with its committed and pending offsets."""
        assert group.state is State.EMPTY
        keys = [RecordKey(group.id, at) for at in self.kept.partitions(group.id)]
        return self._write_tombstones([*keys, RecordKey(group.id)], now)

    def remove(self, group_id: str, partitions: Iterable[Partition], now: float) -> ErrorCode:
        """Forgets a group's committed and pending offsets in some partitions."""
        there = set(self.kept.partitions(group_id))
        return self._write_tombstones(
            [RecordKey(group_id, at) for at in partitions if at in there], now
        )

    def forget_topics(self, names: Collection[str], now: float) -> set[str]:
        """Forgets offsets in topics that are deleted, or about to be created: a group must not
        continue at an old offset in a new topic of the same name. Returns the groups that had
        offsets there.

        If the tombstones cannot be written, that is logged, and the offsets are forgotten in memory
        only."""
        keys = self.kept.of_topics(names)
        if self._write_tombstones(keys, now):
            LOG.warning("offsets of deleted topics stay in %s: it cannot be written", OFFSETS_TOPIC)
            self._drop(keys)
        return {key.group_id for key in keys}

    # --- details

    def _write_tombstones(self, keys: list[RecordKey], now: float) -> ErrorCode:
        code = NONE
        if self._is_writable:
            code = self.topic.write_tombstones(keys, now, self._strays)
        if not code:
            self._drop(keys)
        return code

    def _drop(self, keys: Iterable[RecordKey]) -> None:
        for key in keys:
            if key.partition is not None:
                self.kept.remove(key)

    def _read_all(self) -> dict[str, int]:
        """Reads the topic. Returns by group a partition that has its records.

        A group's records in other partitions than its own are older, and so are read first."""
        found_in: dict[str, int] = {}

        def note(index: int, record: Record, producer_id: int | None) -> None:
            key = self._read(index, record, producer_id)
            if key is not None:
                found_in[key.group_id] = index
                if index != homes.setdefault(key.group_id, self.topic.partition_of(key.group_id)):
                    self._strays[key.group_id].add(index)

        homes: dict[str, int] = {}
        self.topic.read(note, self._end)
        if not self._strays:
            return found_in
        self.kept, self.stored = CommittedOffsets(), {}
        for is_home in (False, True):

            def again(
                index: int, record: Record, producer_id: int | None, is_home: bool = is_home
            ) -> None:
                self._read(
                    index, record, producer_id, lambda group: (homes[group] == index) is is_home
                )

            self.topic.read(again, self._end)
        return found_in

    def _read(
        self,
        index: int,
        record: Record,
        producer_id: int | None,
        is_wanted: Callable[[str], bool] = lambda _: True,
    ) -> RecordKey | None:
        """Applies a record, if its group is wanted. Returns the record's key. None: it has no valid
        key."""
        key = None
        try:
            key = read_key(record.key or b"")
            if key is None or not is_wanted(key.group_id):
                return key
            if key.partition is None:
                if record.value is None:
                    self.stored.pop(key.group_id, None)
                elif self._is_writable:
                    self.stored[key.group_id] = read_group(record.value)
                return key
            producer: Producer | None = None if producer_id is None else (index, producer_id)
            committed = None if record.value is None else read_committed(record.value)
            if committed is None or self._is_of_another(key.partition[0], committed.topic_id):
                self.kept.remove(key, producer)
            else:
                self.kept.put(key.group_id, key.partition, committed, record.offset, producer)
        except UnreadableRecordError as error:
            LOG.warning("%s: the record at %d is damaged: %s", OFFSETS_TOPIC, record.offset, error)
        return key

    def _is_of_another(self, name: str, topic_id: bytes) -> bool:
        """Whether the topic of this name has another id than the committed one."""
        if topic_id == NO_ID:
            return False
        topic = self._topics.get(name)
        return topic is not None and topic.has_id and topic_id != topic.id

    def _end(self, index: int, producer_id: int, committed: bool) -> None:
        self.kept.end((index, producer_id), committed=committed)

    def _log_problems(self, found_in: Mapping[str, int]) -> None:
        """Logs the missing partitions of the topic, and the open transactions."""
        count, missing = self.topic.count, self.topic.missing
        if missing:
            named = ", ".join(map(str, missing[:SHOWN_MAX]))
            more = "" if len(missing) <= SHOWN_MAX else f" and {len(missing) - SHOWN_MAX} more"
            LOG.warning(
                "%s: partitions %s%s are missing (of %d); their groups begin without offsets",
                OFFSETS_TOPIC,
                named,
                more,
                count,
            )
        strays = sum(partition_of(group, count) != index for group, index in found_in.items())
        if strays:
            LOG.warning(
                "%s: %d of %d groups belong to other partitions if there are %d; "
                "set the number of the cluster (--offsets-partitions)",
                OFFSETS_TOPIC,
                strays,
                len(found_in),
                count,
            )
        unsettled = sum(bool(self.kept.pending(group)) for group in self.kept.ids())
        if unsettled:
            LOG.warning(
                "%s: %d groups have offsets in transactions that are still open and do not count",
                OFFSETS_TOPIC,
                unsettled,
            )
