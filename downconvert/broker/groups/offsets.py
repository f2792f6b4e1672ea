"""Committed offsets, and groups that can be gone on with: in memory, and in `__consumer_offsets`.

A broker that may write keeps them in that topic, as Kafka does, and makes it when it is first
needed. One that only reads begins with what the directory's broker had kept there, as far as
offsets go: its members are that broker's. What is committed here stays in memory then.

Not here: what the records look like (offset_records.py), who may commit (group.py), when the log
is compacted (storage)."""

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from downconvert.broker.appending import prepare
from downconvert.broker.errors import ApiError, BadRequestError, ErrorCode
from downconvert.broker.topic_configs import AppendConfig
from downconvert.broker.topics import OFFSETS_TOPIC, Topic
from downconvert.storage import StorageError
from records import Columns, Record, RecordsError, build
from records.formats import V2

from .group import Group, State
from .offset_records import (
    NO_TIME,
    Committed,
    Key,
    Partition,
    StoredGroup,
    read_committed,
    read_group,
    read_key,
    write_committed,
    write_group,
    write_key,
)

if TYPE_CHECKING:
    from downconvert.broker.broker import Broker

__all__ = ["NO_TIME", "Committed", "Offsets", "Partition"]

LOG: Final = logging.getLogger("broker")
CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024)}
HASH_BITS: Final = 31  # of Java's String.hashCode, without its sign


class Offsets:
    """By group. Its owner holds a lock around every call."""

    def __init__(self, broker: "Broker") -> None:
        """Reads what there is. What cannot be read is said in the log, and left out."""
        self._config = broker.config
        self._topics = broker.topics
        self._purgatory = broker.purgatory
        self._committed: dict[str, dict[Partition, Committed]] = {}
        self.stored: dict[str, StoredGroup] = {}  # that have not been asked for yet
        topic = self._topics.get(OFFSETS_TOPIC)
        for index in sorted(topic.partitions) if topic is not None else ():
            try:
                for record in topic.partitions[index].log.records():  # type: ignore[union-attr]
                    self._read(record)
            except (RecordsError, StorageError, OSError) as error:
                LOG.warning("%s-%d is read up to its damage: %s", OFFSETS_TOPIC, index, error)

    def ids(self) -> set[str]:
        """Of the groups that have committed something, or had members."""
        return self._committed.keys() | self.stored.keys()

    def of(self, group_id: str) -> Mapping[Partition, Committed]:
        return dict(self._committed.get(group_id, {}))

    def has(self, group_id: str) -> bool:
        return group_id in self._committed

    def commit(
        self, group_id: str, offsets: Mapping[Partition, Committed], now: float
    ) -> ErrorCode:
        """Keeps these, all or none. `now` in seconds."""
        if not offsets:
            return ErrorCode.NONE
        records = [(Key(group_id, at), write_committed(one)) for at, one in offsets.items()]
        code = self._append(group_id, records, now)
        if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        if not code:
            self._committed.setdefault(group_id, {}).update(offsets)
        return code

    def store(self, group: Group, now: float) -> ErrorCode:
        """Keeps a group, so that it is gone on with when the broker starts again."""
        stored = StoredGroup(
            group.protocol_type or "",
            group.generation,
            group.protocol,
            group.leader if group.members else None,
            int(now * 1000),
            tuple(group.members.values()),
        )
        code = self._append(group.id, [(Key(group.id), write_group(stored))], now)
        too_large = code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
        return ErrorCode.UNKNOWN_SERVER_ERROR if too_large else code

    def delete(self, group: Group, now: float) -> ErrorCode:
        """Forgets a group, and all that it has committed."""
        assert group.state is State.EMPTY
        keys = [Key(group.id, at) for at in self._committed.get(group.id, ())]
        code = self._append(group.id, [(key, None) for key in [*keys, Key(group.id)]], now)
        if not code:
            self._committed.pop(group.id, None)
        return code

    # --- the log

    def _read(self, record: Record) -> None:
        try:
            key = read_key(record.key or b"")
            if key is None:
                return
            if key.partition is None:
                if record.value is None:
                    self.stored.pop(key.group_id, None)
                elif self._config.is_writable:
                    self.stored[key.group_id] = read_group(record.value)
                return
            kept = self._committed.setdefault(key.group_id, {})
            if record.value is None:
                kept.pop(key.partition, None)
            else:
                kept[key.partition] = read_committed(record.value)
            if not kept:
                del self._committed[key.group_id]
        except BadRequestError as error:
            LOG.warning("%s: the record at %d is damaged: %s", OFFSETS_TOPIC, record.offset, error)

    def _append(
        self, group_id: str, records: Iterable[tuple[Key, bytes | None]], now: float
    ) -> ErrorCode:
        if not self._config.is_writable:
            return ErrorCode.NONE
        time = int(now * 1000)
        try:
            topic = self._topic(time)
            index = partition_of(group_id, max(topic.partitions) + 1)
            partition = topic.partitions.get(index)
            if partition is None:
                return ErrorCode.NOT_COORDINATOR
            keys, values = zip(*((write_key(key), value) for key, value in records), strict=True)
            count = len(keys)
            columns = Columns(range(count), [time] * count, keys, values)
            config = AppendConfig.of(topic.config, self._config)
            prepared = prepare(memoryview(build(columns, magic=V2)), config, time)
            assert prepared is not None
            partition.append(prepared, time)
        except ApiError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return ErrorCode.NOT_COORDINATOR
            return error.code
        except (OSError, StorageError) as error:
            LOG.warning("%s cannot be written: %s", OFFSETS_TOPIC, error)
            return ErrorCode.NOT_COORDINATOR
        self._purgatory.touch(("partition", *partition.name))
        return ErrorCode.NONE

    def _topic(self, time: int) -> Topic:
        with self._topics.lock:
            topic = self._topics.get(OFFSETS_TOPIC)
            if topic is None:
                count = self._config.offsets_topic_partitions
                topic = self._topics.create(OFFSETS_TOPIC, count, CONFIG, time)
            return topic


def partition_of(group_id: str, count: int) -> int:
    """The partition that a group's records are in: Java's hash of its id's UTF-16 code units."""
    encoded, hashed = group_id.encode("utf-16-be"), 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed % (1 << HASH_BITS) % count
