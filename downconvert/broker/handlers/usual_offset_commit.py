"""The usual commit of offsets: a small one, of a consumer without an instance id.

Versions from 8 on have another layout, and are left to offset_commit.py, as are refused
partitions.

Not here: whether a member may commit (group.py), storing offsets (offsets.py)."""

import struct
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from downconvert.broker.exchange import Exchange
from downconvert.broker.groups.member import MemberIdentity
from downconvert.broker.groups.offsets import NO_TIME, Committed, Partition
from downconvert.broker.state import BrokerState
from downconvert.internal_topics.group_records import NO_EPOCH, NO_ID
from downconvert.protocol.requests import RequestHeader
from downconvert.protocol.responses import LENGTH_SIZE, ResponseSend
from records.units import KiB

from .offset_commit import check_partition, expire_time
from .usual import Usual

SIZE_MAX: Final = 4 * KiB  # bytes of a request
NULL: Final = -1  # in place of a length
assert NULL == NO_TIME
LENGTH: Final = Struct(">h")
COUNT: Final = Struct(">i")
FRAME: Final = Struct(">ii")  # of a response: its length, the correlation id
GENERATION: Final = Struct(">ih")  # and the length of the member id
ANSWERED: Final = Struct(">ih")  # of a partition in a response: the index, the error code


class Layout(NamedTuple):
    """A version's layout. topics: what follows the member id: the length of the instance id or the
    retention time, if the version has them, and the number of topics. partition: index, offset,
    leader epoch (if it has one), and the length of the metadata. start_size: bytes of the response:
    its length, the correlation id, the throttle time (if it has one), and the number of topics."""

    topics: Struct
    partition: Struct
    start_size: int


RETENTION, INSTANCE = Struct(">qi"), Struct(">hi")
OLD, WITH_EPOCH = Struct(">iqh"), Struct(">iqih")
START_SIZE: Final = FRAME.size + COUNT.size
THROTTLED: Final = START_SIZE + COUNT.size
LAYOUTS: Final = {
    2: Layout(RETENTION, OLD, START_SIZE),
    3: Layout(RETENTION, OLD, THROTTLED),
    4: Layout(RETENTION, OLD, THROTTLED),
    5: Layout(COUNT, OLD, THROTTLED),
    6: Layout(COUNT, WITH_EPOCH, THROTTLED),
    7: Layout(INSTANCE, WITH_EPOCH, THROTTLED),
}
# An index, an offset, a leader epoch, and metadata.
Offset: TypeAlias = tuple[int, int, int, str]


class UsualCommit(NamedTuple):
    """The fields of such a request. topics: the bytes up to the partitions, which are the same in
    the response, the name, and the offsets."""

    group_id: str
    generation: int
    member_id: str
    retention: int  # milliseconds; -1: that of the broker
    topics: list[tuple[memoryview, str, list[Offset]]]


def read(header: RequestHeader, frame: memoryview) -> UsualCommit | None:
    """See `Usual.read`."""
    layout, size = LAYOUTS.get(header.version), len(frame)
    if layout is None or size > SIZE_MAX:
        return None
    layout_of_topics, layout_of_partition, _ = layout
    topics, retention, epoch = [], NO_TIME, NO_EPOCH
    try:
        (length,) = LENGTH.unpack_from(frame, header.size)
        start = header.size + LENGTH.size
        at = start + length
        generation, member_length = GENERATION.unpack_from(frame, at)
        if length < 0 or member_length < 0:
            return None
        group_id = frame[start:at].tobytes().decode()
        start = at + GENERATION.size
        at = start + member_length
        if layout_of_topics is COUNT:
            (count,) = COUNT.unpack_from(frame, at)
        else:
            retention, count = layout_of_topics.unpack_from(frame, at)
        if count < 0 or (layout_of_topics is INSTANCE and retention != NULL):
            return None  # or it has an instance id, and this is its length
        member_id = frame[start:at].tobytes().decode()
        at += layout_of_topics.size
        for _ in range(count):
            (length,) = LENGTH.unpack_from(frame, at)
            start = at + LENGTH.size
            at = start + length
            (partitions,) = COUNT.unpack_from(frame, at)
            if length < 0 or partitions < 0:
                return None
            name = frame[start:at].tobytes().decode()
            at += COUNT.size
            head = frame[start - LENGTH.size : at]
            offsets: list[Offset] = []
            for _ in range(partitions):
                if layout_of_partition is OLD:
                    index, offset, length = OLD.unpack_from(frame, at)
                else:
                    index, offset, epoch, length = WITH_EPOCH.unpack_from(frame, at)
                at += layout_of_partition.size
                metadata = ""
                if length > 0:
                    metadata = frame[at : at + length].tobytes().decode()
                    at += length
                if length < NULL or at > size:
                    return None
                offsets.append((index, offset, epoch, metadata))
            topics.append((head, name, offsets))
    except (struct.error, UnicodeDecodeError):
        return None
    return tuple.__new__(UsualCommit, (group_id, generation, member_id, retention, topics))


def answer(broker: BrokerState, exchange: Exchange, request: UsualCommit, now: float) -> bool:
    """Commits the offsets. See `Usual.answer`."""
    time, count = broker.time_of_day.ms(now), 0
    expires = expire_time(request.retention, time)
    committed: dict[Partition, Committed] = {}
    for _, name, offsets in request.topics:
        for index, offset, epoch, metadata in offsets:
            at = name, index
            if check_partition(broker, at, metadata):
                return False
            fields = offset, epoch, metadata, time, expires, NO_ID
            committed[at] = tuple.__new__(Committed, fields)  # without a call in between
            count += 1
    if len(committed) < count:
        return False  # a partition is repeated
    identity = MemberIdentity(request.member_id, request.generation)
    code = broker.groups.commit(request.group_id, identity, committed, now)
    if code and count:
        exchange.errors = {int(code): count}
    start_size = LAYOUTS[exchange.request.version].start_size
    response = bytearray(start_size)
    for head, _, offsets in request.topics:
        response += head
        for index, _, _, _ in offsets:
            response += ANSWERED.pack(index, code)
    size = len(response)
    FRAME.pack_into(response, 0, size - LENGTH_SIZE, exchange.correlation_id)
    COUNT.pack_into(response, start_size - COUNT.size, len(request.topics))
    exchange.finish(ResponseSend([response], size))
    return True


USUAL: Final = Usual(read, answer)
