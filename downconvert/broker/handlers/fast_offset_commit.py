"""The fast path of OffsetCommit: a consumer without an instance id commits offsets of partitions
that exist.

Not here: all other requests (offset_commit.py), whether a member may commit (group.py), storing
offsets (offsets.py)."""

from functools import cache
from typing import Any, Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.member import MemberIdentity
from downconvert.broker.groups.offsets import Committed, Partition
from downconvert.broker.state import BrokerState
from downconvert.internal_topics.group_records import NO_ID
from downconvert.protocol.errors import NONE, ErrorCode
from downconvert.protocol.plain_values import Read, Respond, reader, writer

from .fast_path import FastPath
from .offset_commit import WITH_IDS, WITH_RETENTION, check_partition, expire_time

MEMBER: Final = ("group_id", "generation_id_or_member_epoch", "member_id", "retention_time_ms")
TOPIC: Final = ("topics", "name", "partitions", "partition_index")
OFFSET: Final = ("committed_offset", "committed_leader_epoch", "committed_metadata")


@cache
def read(version: int) -> Read:
    fixed = {"group_instance_id": None}
    return reader("OffsetCommitRequest", version, MEMBER + TOPIC + OFFSET, fixed)


@cache
def respond(version: int) -> Respond:
    return writer("OffsetCommitResponse", version, (*TOPIC, "error_code"), {})


def answer(broker: BrokerState, exchange: Exchange, values: tuple[Any, ...], now: float) -> bool:
    """Commits the offsets. See `FastPath.answer`."""
    group_id, generation, member_id, retention, topics = values
    time, count = broker.time_of_day.ms(now), 0
    expires = expire_time(retention, time)
    committed: dict[Partition, Committed] = {}
    results: list[tuple[str, list[tuple[int, ErrorCode]]]] = []
    for name, partitions in topics:
        codes: list[tuple[int, ErrorCode]] = []
        results.append((name, codes))
        for index, offset, epoch, metadata in partitions:
            at = name, index
            if check_partition(broker, at, metadata):
                return False
            fields = offset, epoch, metadata or "", time, expires, NO_ID
            committed[at] = tuple.__new__(Committed, fields)  # without a call in between
            codes.append((index, NONE))
            count += 1
    if len(committed) < count:
        return False  # a partition is repeated
    identity = MemberIdentity(member_id, generation)
    code = broker.groups.commit(group_id, identity, committed, now)
    if code and count:
        exchange.errors = {int(code): count}
        results = [(name, [(index, code) for index, _ in codes]) for name, codes in results]
    exchange.finish(respond(exchange.request.version)(exchange.correlation_id, results))
    return True


FAST_PATH: Final = FastPath(range(WITH_RETENTION, WITH_IDS), read, answer)
