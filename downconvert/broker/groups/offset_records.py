"""Committed offsets and groups as records of `__consumer_offsets`, as Kafka writes them.

A key begins with its type: 0 and 1, an offset; 2, a group; others belong to protocols that are
not served here. A value begins with its version. Sources: Kafka's definitions of OffsetCommitKey,
OffsetCommitValue, GroupMetadataKey and GroupMetadataValue.

Not here: the log that they are in (offsets.py)."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from downconvert.broker.errors import BadRequestError
from downconvert.broker.wire.decoder import Cursor

from .member import Member

Partition: TypeAlias = tuple[str, int]  # topic, index

NO_TIME: Final = -1
NO_EPOCH: Final = -1
NO_ID: Final = bytes(16)
TOPIC_ID_TAG: Final = 0
INT16, INT32, INT64 = Struct(">h"), Struct(">i"), Struct(">q")
OFFSET_KEYS: Final = range(2)  # both look the same
GROUP_KEY: Final = 2
FLEXIBLE: Final = 4  # the version of either value whose lengths are compact, written by Kafka 4


@dataclass(frozen=True, slots=True)
class Committed:
    """A position of a group in a partition. Times in milliseconds since the epoch, or -1."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_time: int = NO_TIME
    expire_time: int = NO_TIME  # as versions 2 to 4 of OffsetCommit ask for
    topic_id: bytes = NO_ID  # as Kafka has noted it since 4.1


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as it was when its generation was complete, or when it had lost its last member."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    time: int  # milliseconds since the epoch of that
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """What a record is of: a partition's offset, or the group itself."""

    group_id: str
    partition: Partition | None = None


# --- reading


def read_key(data: bytes) -> Key | None:
    """None: it is of something that is not kept here. BadRequestError: it is damaged."""
    cursor = Cursor(memoryview(data))
    version = _number(cursor, INT16)
    if version in OFFSET_KEYS:
        group_id, topic = _text(cursor), _text(cursor)
        return Key(group_id, (topic, _number(cursor, INT32)))
    return Key(_text(cursor)) if version == GROUP_KEY else None


def read_committed(data: bytes) -> Committed:
    """The value of an offset's record. BadRequestError: it is damaged, or of a later version."""
    cursor = Cursor(memoryview(data))
    version = _version(cursor)
    offset = _number(cursor, INT64)
    epoch = _number(cursor, INT32) if version >= 3 else NO_EPOCH
    metadata = _text(cursor, version)
    commit_time = _number(cursor, INT64)
    expire_time = _number(cursor, INT64) if version == 1 else NO_TIME
    tags = _tags(cursor) if version >= FLEXIBLE else {}
    topic_id = tags.get(TOPIC_ID_TAG, NO_ID)
    if len(topic_id) != len(NO_ID):
        raise BadRequestError(f"a topic id of {len(topic_id)} bytes")
    return Committed(offset, epoch, metadata, commit_time, expire_time, topic_id)


def read_group(data: bytes) -> StoredGroup:
    """The value of a group's record. BadRequestError as above."""
    cursor = Cursor(memoryview(data))
    version = _version(cursor)
    protocol_type, generation = _text(cursor, version), _number(cursor, INT32)
    protocol, leader = _nullable(cursor, version), _nullable(cursor, version)
    time = _number(cursor, INT64) if version >= 2 else NO_TIME
    count = cursor.uvarint() - 1 if version >= FLEXIBLE else _number(cursor, INT32)
    if count > cursor.remaining:
        raise BadRequestError(f"{count} members in {cursor.remaining} bytes")
    members = tuple(_member(cursor, version, protocol) for _ in range(count))
    return StoredGroup(protocol_type, generation, protocol, leader, time, members)


def _member(cursor: Cursor, version: int, protocol: str | None) -> Member:
    member_id = _text(cursor, version)
    instance_id = _nullable(cursor, version) if version >= 3 else None
    client_id, client_host = _text(cursor, version), _text(cursor, version)
    rebalance = _number(cursor, INT32) if version >= 1 else None
    session = _number(cursor, INT32)
    subscription, assignment = _bytes(cursor, version), _bytes(cursor, version)
    if version >= FLEXIBLE:
        _tags(cursor)
    return Member(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout=session / 1000,
        rebalance_timeout=(session if rebalance is None else rebalance) / 1000,
        protocols=((protocol or "", subscription),),
        assignment=assignment,
    )


def _version(cursor: Cursor) -> int:
    version = _number(cursor, INT16)
    if not 0 <= version <= FLEXIBLE:
        raise BadRequestError(f"a value of version {version}")
    return version


def _number(cursor: Cursor, kind: Struct) -> int:
    value: int = kind.unpack_from(cursor.data, cursor.take(kind.size))[0]
    return value


def _nullable(cursor: Cursor, version: int = 0) -> str | None:
    size = cursor.uvarint() - 1 if version >= FLEXIBLE else _number(cursor, INT16)
    if size < 0:
        return None
    return cursor.text(size)


def _text(cursor: Cursor, version: int = 0) -> str:
    return _nullable(cursor, version) or ""


def _bytes(cursor: Cursor, version: int) -> bytes:
    size = cursor.uvarint() - 1 if version >= FLEXIBLE else _number(cursor, INT32)
    if size < 0:
        return b""
    start = cursor.take(size)
    return bytes(cursor.data[start : start + size])


def _tags(cursor: Cursor) -> dict[int, bytes]:
    found = {}
    for _ in range(cursor.uvarint()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        start = cursor.take(size)
        found[tag] = bytes(cursor.data[start : start + size])
    return found


# --- writing


def write_key(key: Key) -> bytes:
    if key.partition is None:
        return INT16.pack(GROUP_KEY) + _string(key.group_id)
    topic, index = key.partition
    return INT16.pack(1) + _string(key.group_id) + _string(topic) + INT32.pack(index)


def write_committed(committed: Committed) -> bytes:
    """In version 3; in 1, the only one with a time to expire at, where there is one."""
    offset, metadata = INT64.pack(committed.offset), _string(committed.metadata)
    time = INT64.pack(committed.commit_time)
    if committed.expire_time != NO_TIME:
        return INT16.pack(1) + offset + metadata + time + INT64.pack(committed.expire_time)
    return INT16.pack(3) + offset + INT32.pack(committed.leader_epoch) + metadata + time


def write_group(group: StoredGroup) -> bytes:
    """In version 3, the first that has static members."""
    written = bytearray(INT16.pack(3))
    written += _string(group.protocol_type) + INT32.pack(group.generation)
    written += _string(group.protocol) + _string(group.leader) + INT64.pack(group.time)
    written += INT32.pack(len(group.members))
    for member in group.members:
        written += _string(member.id) + _string(member.instance_id)
        written += _string(member.client_id) + _string(member.client_host)
        written += INT32.pack(round(member.rebalance_timeout * 1000))
        written += INT32.pack(round(member.session_timeout * 1000))
        for data in (member.metadata(group.protocol), member.assignment):
            written += INT32.pack(len(data)) + data
    return bytes(written)


def _string(text: str | None) -> bytes:
    if text is None:
        return INT16.pack(-1)
    encoded = text.encode()
    return INT16.pack(len(encoded)) + encoded
