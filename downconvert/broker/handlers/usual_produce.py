"""The usual produce request: one v2 batch for one partition, without a transaction, that waits for
no other replica.

Versions from 9 on have another layout, and are left to produce.py.

Not here: checking records (appending.py)."""

import struct
from struct import Struct
from typing import Final, NamedTuple

from downconvert.broker.exchange import Exchange
from downconvert.broker.state import BrokerState
from downconvert.broker.topics import INTERNAL_TOPICS
from downconvert.protocol.errors import ApiError
from downconvert.protocol.requests import RequestHeader
from downconvert.protocol.responses import LENGTH_SIZE, ResponseSend
from downconvert.serving.appending import prepare_ordinary
from downconvert.storage import StorageError
from records.formats import Codec

from .produce import ALL, LEADER, ZSTD_VERSION
from .usual import Usual

NONE: Final = -1  # no transactional id
# A request begins with the length of the transactional id, acks, the timeout, the number of topics,
# and the length of the topic's name.
HEAD: Final = Struct(">hhiih")
PARTITION: Final = Struct(">iii")  # the number of partitions, the index, the size of the records
# A response begins with its length, the correlation id, the number of topics, and the length of the
# name.
START: Final = Struct(">iiih")


class Layout(NamedTuple):
    """A version's fields after the name in a response: the number of partitions, the index, the
    error code, the base offset, the append time, the start of the log (if `has_start`), and `rest`:
    record errors, the error message, the throttle time."""

    struct: Struct
    has_start: bool
    rest: tuple[int, ...] = (0,)


OLD: Final = Layout(Struct(">iihqqi"), has_start=False)
WITH_START: Final = Layout(Struct(">iihqqqi"), has_start=True)
LAYOUTS: Final = {
    3: OLD,
    4: OLD,
    5: WITH_START,
    6: WITH_START,
    7: WITH_START,
    8: Layout(Struct(">iihqqqihi"), has_start=True, rest=(0, -1, 0)),
}


class UsualProduce(NamedTuple):
    """The fields of such a request."""

    acks: int
    topic: str
    partition: int
    records: memoryview


def read(header: RequestHeader, frame: memoryview) -> UsualProduce | None:
    """See `Usual.read`."""
    if header.version not in LAYOUTS:
        return None
    start = header.size + HEAD.size
    try:
        transactional, acks, _, topics, length = HEAD.unpack_from(frame, header.size)
        if transactional != NONE or acks not in (LEADER, ALL) or topics != 1 or length < 0:
            return None
        end = start + length
        partitions, index, size = PARTITION.unpack_from(frame, end)
        topic = frame[start:end].tobytes().decode()
    except (struct.error, UnicodeDecodeError):
        return None
    start = end + PARTITION.size
    if partitions != 1 or not 0 < size <= len(frame) - start:
        return None
    records = frame[start : start + size]
    return tuple.__new__(UsualProduce, (acks, topic, index, records))


def answer(broker: BrokerState, exchange: Exchange, request: UsualProduce, now: float) -> bool:
    """Appends the records. See `Usual.answer`."""
    acks, name, index, records = request
    topic = broker.topics.by_name.get(name)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None or name in INTERNAL_TOPICS:
        return False
    if not broker.config.is_writable or exchange.quota is not None:
        return False
    if acks == ALL and (len(partition.replicas) > 1 or partition.committed_end is not None):
        return False
    now_ms, version = broker.time_of_day.ms(now), exchange.request.version
    prepared = prepare_ordinary(records, topic.append_config, now_ms)
    if prepared is None:
        return False
    batch, start_offset = prepared.batches[0], partition.start_offset
    if version < ZSTD_VERSION and batch.codec is Codec.ZSTD:
        return False
    try:  # it refuses transactional batches, and partitions that this broker does not lead
        base_offset, _, append_time = partition.append(prepared, now, now_ms)
    except (ApiError, OSError, StorageError):
        return False
    broker.purgatory.notify(partition.key)
    after, encoded = LAYOUTS[version], name.encode()
    size = START.size + len(encoded) + after.struct.size
    head = bytearray(START.pack(size - LENGTH_SIZE, exchange.correlation_id, 1, len(encoded)))
    head += encoded
    starts = (start_offset,) if after.has_start else ()
    head += after.struct.pack(1, index, 0, base_offset, append_time, *starts, *after.rest)
    exchange.finish(ResponseSend([head], size))
    return True


USUAL: Final = Usual(read, answer)
