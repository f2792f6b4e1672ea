"""TxnOffsetCommit: a group's positions, which count once a producer's transaction is committed.

Not here: the checks of a plain commit (offset_commit.py), applying it (committed_offsets.py)."""

from functools import partial
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.member import MemberIdentity
from downconvert.broker.groups.offsets import Committed, Partition
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import OFFSETS_TOPIC
from downconvert.protocol.errors import ApiError, ErrorCode
from downconvert.protocol.schemas import Message
from downconvert.storage import TopicPartition

from .offset_commit import check_partition, reply_code

ABORTABLE_VERSION: Final = 4  # the first version with TRANSACTION_ABORTABLE


def handle(broker: BrokerState, exchange: Exchange, now: float) -> None:
    body = exchange.request.body
    refused: dict[Partition, ErrorCode] = {}
    offsets: dict[Partition, Committed] = {}
    time = broker.time_of_day.ms(now)
    for topic in body.topics:
        for one in topic.partitions:
            at = topic.name, one.partition_index
            offsets.pop(at, None)  # for a repeated partition, the last offset counts
            refused[at] = check_partition(broker, at, one.committed_metadata)
            if not refused[at]:
                metadata = one.committed_metadata or ""
                offsets[at] = Committed(
                    one.committed_offset, one.committed_leader_epoch, metadata, time
                )
    code = _commit(broker, exchange, offsets, now)
    topics = [
        Message(
            name=topic.name,
            partitions=[
                Message(
                    partition_index=one.partition_index,
                    error_code=reply_code(refused[topic.name, one.partition_index], code),
                )
                for one in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    exchange.reply(Message(topics=topics))


def _commit(
    broker: BrokerState, exchange: Exchange, offsets: dict[Partition, Committed], now: float
) -> ErrorCode:
    if not broker.config.is_writable:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    body = exchange.request.body
    index = broker.groups.topic.partition_of(body.group_id)
    at = TopicPartition(OFFSETS_TOPIC, index)
    if not body.group_id:
        return ErrorCode.INVALID_GROUP_ID
    producer = body.producer_id, body.producer_epoch
    try:  # before the group is checked: a fenced producer gets that error first
        broker.transactions.check_producer(body.transactional_id, at, producer)
        code = _commit_to_group(broker, body, offsets, at, now)
    except ApiError as error:
        code = error.code
    if code is ErrorCode.CONCURRENT_TRANSACTIONS:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # all producers retry it
    if code is ErrorCode.TRANSACTION_ABORTABLE and exchange.request.version < ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _commit_to_group(
    broker: BrokerState,
    body: Message,
    offsets: dict[Partition, Committed],
    at: TopicPartition,
    now: float,
) -> ErrorCode:
    return broker.groups.commit(
        body.group_id,
        MemberIdentity(body.member_id, body.generation_id, body.group_instance_id),
        offsets,
        now,
        producer=(body.producer_id, body.producer_epoch),
        check=partial(broker.transactions.check_batch, body.transactional_id, at),
    )
