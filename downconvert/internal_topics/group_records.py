"""Committed offsets and groups as records of `__consumer_offsets`, as Kafka writes them.

A key begins with its type. 0 and 1 are an offset, and 2 is a group. Other types belong to later
group protocols (KIP-848, KIP-932, KIP-1071). Only their names are known here. A value begins with
its version.
Sources: Kafka's definitions of OffsetCommitKey, OffsetCommitValue, GroupMetadataKey and
GroupMetadataValue.

Not here: the log of the records (broker/groups/offsets.py, spark/read/state_tables.py)."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from .cursor import Cursor, UnreadableRecordError
from .primitives import (
    INT16,
    INT32,
    INT64,
    data_of,
    nullable,
    number,
    string,
    tags,
    text,
)

Partition: TypeAlias = tuple[str, int]  # topic, index

NO_TIME: Final = -1
NO_EPOCH: Final = -1
NO_ID: Final = bytes(16)
TOPIC_ID_TAG: Final = 0
OFFSET_KEY: Final = 1
OFFSET_KEYS: Final = range(2)  # both have the same fields
KEY_START: Final = Struct(">hh")  # type, length of the group's id
COMMITTED_START: Final = Struct(">hqih")  # version, offset, leader epoch, length of the metadata
EXPIRING_START: Final = Struct(">hqh")  # the same before leader epochs were stored
GROUP_KEY: Final = 2
# Keys of later protocols begin with the group's id [CoordinatorRecordType].
LATER_KEYS: Final = {
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    18: "StreamsGroupPartitionMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
GROUP_NAME: Final = "GroupMetadata"
FLEXIBLE: Final = 4  # the version of both values with compact lengths, written by Kafka 4


class Committed(NamedTuple):
    """A position of a group in a partition. Times in milliseconds since the epoch, or -1."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_time: int = NO_TIME
    expire_time: int = NO_TIME  # from versions 2 to 4 of OffsetCommit
    topic_id: bytes = NO_ID  # stored by Kafka since 4.1


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member of a group. Time-outs in milliseconds."""

    id: str
    instance_id: str | None  # of a static member
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes  # its metadata for the group's protocol
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group at the time when a generation was complete, or when its last member had left."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    time: int  # when that was, in milliseconds since the epoch
    members: tuple[StoredMember, ...] = ()


class RecordKey(NamedTuple):
    """The subject of a record: a partition's offset, or the group itself."""

    group_id: str
    partition: Partition | None = None


# --- reading


def read_key(data: bytes) -> RecordKey | None:
    """The subject of a record. None: a kind of record that is not read here. UnreadableRecordError:
    the key is damaged."""
    cursor = Cursor(memoryview(data))
    version = number(cursor, INT16)
    if version in OFFSET_KEYS:
        group_id, topic = text(cursor), text(cursor)
        return RecordKey(group_id, (topic, number(cursor, INT32)))
    return RecordKey(text(cursor)) if version == GROUP_KEY else None


def read_group_key(data: bytes) -> tuple[str, str] | None:
    """The group id of a record, and Kafka's name for such records, also for those of later
    protocols.

    None: the record is an offset, or of an unknown type. UnreadableRecordError as above."""
    cursor = Cursor(memoryview(data))
    version = number(cursor, INT16)
    name = GROUP_NAME if version == GROUP_KEY else LATER_KEYS.get(version)
    return None if name is None else (text(cursor), name)


def read_committed(data: bytes) -> Committed:
    """The value of an offset's record. UnreadableRecordError: it is damaged, or of a later
    version."""
    cursor = Cursor(memoryview(data))
    version = _version(cursor)
    offset = number(cursor, INT64)
    epoch = number(cursor, INT32) if version >= 3 else NO_EPOCH
    metadata = text(cursor, compact=version >= FLEXIBLE)
    commit_time = number(cursor, INT64)
    expire_time = number(cursor, INT64) if version == 1 else NO_TIME
    tagged = tags(cursor) if version >= FLEXIBLE else {}
    topic_id = tagged.get(TOPIC_ID_TAG, NO_ID)
    if len(topic_id) != len(NO_ID):
        raise UnreadableRecordError(f"a topic id of {len(topic_id)} bytes")
    return Committed(offset, epoch, metadata, commit_time, expire_time, topic_id)


def read_group(data: bytes) -> StoredGroup:
    """The value of a group's record. UnreadableRecordError as above."""
    cursor = Cursor(memoryview(data))
    version = _version(cursor)
    compact = version >= FLEXIBLE
    protocol_type, generation = text(cursor, compact=compact), number(cursor, INT32)
    protocol, leader = nullable(cursor, compact=compact), nullable(cursor, compact=compact)
    time = number(cursor, INT64) if version >= 2 else NO_TIME
    count = cursor.uvarint() - 1 if compact else number(cursor, INT32)
    if count > cursor.remaining:
        raise UnreadableRecordError(f"{count} members in {cursor.remaining} bytes")
    members = tuple(_member(cursor, version) for _ in range(count))
    if compact:
        tags(cursor)
    return StoredGroup(protocol_type, generation, protocol, leader, time, members)


def _member(cursor: Cursor, version: int) -> StoredMember:
    compact = version >= FLEXIBLE
    member_id = text(cursor, compact=compact)
    instance_id = nullable(cursor, compact=compact) if version >= 3 else None
    client_id, client_host = text(cursor, compact=compact), text(cursor, compact=compact)
    rebalance = number(cursor, INT32) if version >= 1 else None
    session = number(cursor, INT32)
    subscription = data_of(cursor, compact=compact)
    assignment = data_of(cursor, compact=compact)
    if compact:
        tags(cursor)
    return StoredMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms=session,
        rebalance_timeout_ms=session if rebalance is None else rebalance,
        subscription=subscription,
        assignment=assignment,
    )


def _version(cursor: Cursor) -> int:
    version = number(cursor, INT16)
    if not 0 <= version <= FLEXIBLE:
        raise UnreadableRecordError(f"a value of version {version}")
    return version


# --- writing


def write_key(key: RecordKey) -> bytes:
    if key.partition is not None:
        return write_offset_key(key.group_id, key.partition)
    group_id = key.group_id.encode()
    return KEY_START.pack(GROUP_KEY, len(group_id)) + group_id


def write_offset_key(group_id: str, partition: Partition) -> bytes:
    """The key of an offset, as `write_key`."""
    group, (topic, index) = group_id.encode(), partition
    name = topic.encode()
    start = KEY_START.pack(OFFSET_KEY, len(group)) + group
    return start + INT16.pack(len(name)) + name + INT32.pack(index)


def write_committed(committed: Committed) -> bytes:
    """In version 3, or with an expiry time in 1, the only version that has one."""
    offset, epoch, metadata, commit_time, expire_time, _ = committed
    data = metadata.encode()
    if expire_time != NO_TIME:
        start = EXPIRING_START.pack(1, offset, len(data))
        return start + data + INT64.pack(commit_time) + INT64.pack(expire_time)
    return COMMITTED_START.pack(3, offset, epoch, len(data)) + data + INT64.pack(commit_time)


def write_group(group: StoredGroup) -> bytes:
    """In version 3, the first with static members."""
    written = bytearray(INT16.pack(3))
    written += string(group.protocol_type) + INT32.pack(group.generation)
    written += string(group.protocol) + string(group.leader) + INT64.pack(group.time)
    written += INT32.pack(len(group.members))
    for member in group.members:
        written += string(member.id) + string(member.instance_id)
        written += string(member.client_id) + string(member.client_host)
        written += INT32.pack(member.rebalance_timeout_ms)
        written += INT32.pack(member.session_timeout_ms)
        for data in (member.subscription, member.assignment):
            written += INT32.pack(len(data)) + data
    return bytes(written)
