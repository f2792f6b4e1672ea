"""OffsetCommit: a group's positions, kept for its next start.

Members commit with their generation. A consumer that assigns its partitions itself, and only keeps
offsets here, commits with generation -1 (version 0 has no other way). Version 0, which wrote to
ZooKeeper in Kafka, is handled like the others.

Not here: whether a member may commit (group.py), storing offsets (offsets.py)."""

from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.member import MemberIdentity
from downconvert.broker.groups.offsets import NO_TIME, Committed, Partition
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import NONE, ErrorCode
from downconvert.protocol.schemas import Message

WITH_RETENTION: Final = 2  # the first version with a retention time, and without times of commits
WITH_IDS: Final = 10  # the first version with topic ids
TIME_MAX: Final = 2**63 - 1  # milliseconds: the latest time that a record can hold


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    refused: dict[Partition, ErrorCode] = {}
    offsets: dict[Partition, Committed] = {}
    time = broker.time_of_day.ms(now)
    expires = expire_time(body.retention_time_ms, time)
    topics: list[Message] = []
    responses: list[tuple[Partition, Message]] = []
    for topic in body.topics:
        name, unknown = topic.name, NONE
        if exchange.request.version >= WITH_IDS:
            name, unknown = _name(broker, topic.topic_id)
        partitions: list[Message] = []
        for partition in topic.partitions:
            at = name, partition.partition_index
            metadata, commit_time = partition.committed_metadata, partition.commit_timestamp
            code = unknown or check_partition(broker, at, metadata)
            # For a repeated partition, the last offset counts.
            offsets.pop(at, None)
            refused.pop(at, None)
            if code:
                refused[at] = code
            else:
                offsets[at] = Committed(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata or "",
                    time if commit_time == NO_TIME else commit_time,
                    expires,
                )
            response = Message(partition_index=at[1])
            partitions.append(response)
            responses.append((at, response))
        topics.append(Message(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    identity = MemberIdentity(
        body.member_id, body.generation_id_or_member_epoch, body.group_instance_id
    )
    code = broker.groups.commit(body.group_id, identity, offsets, now)
    if code or refused:
        for at, response in responses:
            response.error_code = reply_code(refused.get(at, NONE), code)
    exchange.reply(Message(topics=topics))


def expire_time(retention: int, time: int) -> int:
    """When an offset expires that is committed at `time`. All in milliseconds; -1: by the broker's
    own settings."""
    return NO_TIME if retention == NO_TIME else min(time + retention, TIME_MAX)


def reply_code(refused: ErrorCode, code: ErrorCode) -> ErrorCode:
    """The error of a partition. `code`: the error of the whole commit, which has precedence over
    that of metadata."""
    if code and refused is ErrorCode.OFFSET_METADATA_TOO_LARGE:
        return code
    return refused or code


def _name(broker: BrokerState, topic_id: bytes) -> tuple[str, ErrorCode]:
    known = broker.topics.by_id(topic_id)
    if known is None:
        return topic_id.hex(), ErrorCode.UNKNOWN_TOPIC_ID
    return known.name, NONE


def check_partition(broker: BrokerState, partition: Partition, metadata: str | None) -> ErrorCode:
    """Whether an offset with this metadata may be committed there."""
    name, index = partition
    topic = broker.topics.by_name.get(name)
    if topic is None or index not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if metadata is not None and len(metadata) > broker.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return NONE
