"""Translates repeated old fetches of one partition, from bytes to bytes.

A client's polls differ only in correlation id and offset. So the later polls reuse results of the
first exchange: the policy, the request to the cluster, and the bytes around the records. A response
with no batch, one batch, or several uncompressed batches is made without message objects. An
exchange handles all others, including refusals and damage.

Not here: the exchange (fetching.py), sending the requests (translating.py)."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from downconvert import ConversionPolicy
from downconvert.conversion.converter import Converter
from downconvert.conversion.engine import IN_MEMORY
from downconvert.conversion.policy import RESPONSE_SIZE_MAX
from downconvert.conversion.request import Request
from downconvert.protocol.decoder import Cursor, decode
from downconvert.protocol.encoder import Parts
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.fetch_versions import FIRST_BATCH_WHOLE_SINCE, magic_of
from downconvert.protocol.schemas import Message
from downconvert.serving.fetch_assembly import hard_size, may_join_next
from downconvert.serving.series import NAME_MAX
from records import MemoryRecords, RecordsError
from records.formats import V2

from .census import ClientKey
from .exchanges import Ask
from .fetching import WITH_NAMES
from .headers import Header
from .shared import Shared
from .turns import COMMITTED, WORK_A_TURN
from .waiting import LONGEST

REPEATED_MAX: Final = 4  # of one connection
FRAME_MAX: Final = 512  # bytes of such a request, with its length
KIND: Final = slice(4, 8)  # of a frame with its length: API and version
CORRELATION: Final = Struct(">i")
CORRELATION_AT: Final = 8
OFFSET: Final = Struct(">q")
OFFSET_FROM_END: Final = 12  # a one-partition fetch ends with its offset and its limit of bytes
LIMIT_SIZE: Final = 4
LENGTH_SIZE: Final = 4
THROTTLED_SINCE: Final = 1
NOTHING: Final = -1, 0  # lengths of null and of empty records

# The start of the cluster's response, in the newest version that names topics: length, correlation
# id, no tags, throttle time, error code, session.
START: Final = Struct(">iiBihi")
# A partition's high watermark, last stable offset, start of the log, aborted transactions,
# preferred replica.
FIELDS: Final = Struct(">qqqBi")
NO_TRANSACTIONS: Final = 0, 1  # null, or none
NO_TAGS: Final = bytes(3)  # of the partition, the topic and the response
BATCH: Final = Struct(">qiiBiHi")  # up to the last offset's delta, of format 2
BATCH_SIZE: Final = Struct(">i")
LENGTH_END: Final = 12  # position in a batch where its length starts to count
CONTROL: Final = 1 << 5  # of a batch's attributes
CODECS: Final = 7


@dataclass(frozen=True, slots=True)
class Answered:
    """A frame for the client. records, size: of the conversion, including bytes that were cut
    off."""

    frame: bytearray
    records: int
    size: int  # bytes of records


@dataclass(frozen=True, slots=True)
class User:
    """The client. client: the row of the census. client_id: for log lines."""

    client: ClientKey
    client_id: str
    principal: str


class RepeatedFetch:
    """The common part of polls that differ only in correlation id and offset.

    user: the client that polls. wait: seconds that the cluster may wait. is_large: whether the
    cluster's last response was too large for `response`."""

    __slots__ = (
        *(
            "_response_start",
            "_asked",
            "_is_committed",
            "_limit",
            "_magic",
            "_offset_at",
            "_policy",
        ),
        *("_version", "_topic", "_wanted", "is_large", "user", "wait"),
    )

    def __init__(
        self,
        version: int,
        body: Message,
        asked: bytearray,
        offset_at: int,
        policy: ConversionPolicy,
        user: User,
    ) -> None:
        """`body`: of the client's request. `asked`: the frame for the cluster, with its length.
        `offset_at`: the position of the offset in it."""
        (topic,) = body.topics
        (partition,) = topic.partitions
        name, index = topic.topic.encode(), CORRELATION.pack(partition.partition)
        magic = magic_of(version)
        assert magic is not None, "a client that reads what is on disk"
        self.user = user
        self.is_large = False
        self._topic: str = topic.topic
        self.wait: float = min(max(body.max_wait_ms, 0) / 1000, LONGEST)
        self._version = version
        self._magic = magic
        self._limit: int = partition.partition_max_bytes
        self._policy = policy
        self._is_committed = policy.isolation == COMMITTED
        self._asked = asked
        self._offset_at = offset_at
        # One topic and one partition without an error, in the cluster's and the client's version.
        length = Parts()
        length.uvarint(len(name) + 1)
        self._wanted = b"\2" + bytes(length.bytes) + name + b"\2" + index + bytes(2)
        one = (1).to_bytes(4)
        self._response_start = one + len(name).to_bytes(2) + name + one + index + bytes(2)

    def ask(self, correlation_id: int, offset: int) -> bytearray:
        """The frame for the cluster. The next call overwrites it."""
        CORRELATION.pack_into(self._asked, CORRELATION_AT, correlation_id)
        OFFSET.pack_into(self._asked, self._offset_at, offset)
        return self._asked

    def response(
        self, data: memoryview, asked_id: int, correlation_id: int, offset: int, size_max: int
    ) -> Answered | None:
        """Makes the client's response, with at most `size_max` bytes of records, from the whole
        frame of the cluster's response. None: the exchange must handle it.

        `asked_id`: the correlation id of the request to the cluster."""
        try:
            _, found_id, tags, throttle, code, _ = START.unpack_from(data)
            at = START.size + len(self._wanted)
            if found_id != asked_id or tags or code or data[START.size : at] != self._wanted:
                return None
            high, stable, _, transactions, _ = FIELDS.unpack_from(data, at)
            cursor = Cursor(data, at + FIELDS.size)
            size, at = cursor.uvarint() - 1, cursor.position
        except (struct.error, BadRequestError):
            return None
        if transactions not in NO_TRANSACTIONS or data[at + max(size, 0) :] != NO_TAGS:
            return None
        made, count, made_size = bytearray(), 0, 0
        if size not in NOTHING:
            bound = min(high, stable) if self._is_committed else high
            converted = self._converted(data[at : at + size], offset, bound, size_max)
            if converted is None:
                return None
            made, count = converted
            made_size = len(made)
            if self._version < FIRST_BATCH_WHOLE_SINCE:
                del made[hard_size(made_size, self._limit, lambda: memoryview(made)) or made_size :]
                made_size = len(made)
        return Answered(self._frame(correlation_id, throttle, high, made), count, made_size)

    def count(self, answered: Answered, shared: Shared, now: float) -> None:
        """Counts a sent response. `now`: the time of day at which its request arrived."""
        records, sent = (answered.records, answered.size) if answered.size else (0, 0)
        count = shared.census.count_again
        count(self.user.client, now, translated=True, records=records, sent=sent)
        shared.last_old.join([(self._topic[:NAME_MAX], self.user.principal[:NAME_MAX], now)])

    def _converted(
        self, records: memoryview, offset: int, bound: int, size_max: int
    ) -> tuple[bytearray, int] | None:
        """Whole batches in the client's format, and how many records were converted."""
        whole = _whole(records)
        if whole is None:
            return None
        size, following = whole
        used = len(records)
        if may_join_next(used, self._limit - used) and offset < following < bound:
            return None  # the exchange asks the cluster for more
        log = MemoryRecords(records[:size])
        converter = Converter(log, Request(self._magic, offset, self._policy))
        made = bytearray()
        try:
            while done := converter.advance(size, IN_MEMORY, RESPONSE_SIZE_MAX, size_max):
                _, _, _, messages, _ = done
                made += messages or b""
                if len(made) > size_max or converter.work > WORK_A_TURN:
                    return None
            count = converter.counts.records
        except RecordsError:
            return None
        finally:
            converter.release()
        return (made, count) if made else None

    def _frame(
        self, correlation_id: int, throttle: int, high: int, records: bytearray
    ) -> bytearray:
        frame = bytearray(LENGTH_SIZE)
        frame += CORRELATION.pack(correlation_id)
        if self._version >= THROTTLED_SINCE:
            frame += CORRELATION.pack(throttle)
        frame += self._response_start
        frame += OFFSET.pack(high)
        frame += BATCH_SIZE.pack(len(records))
        frame += records
        BATCH_SIZE.pack_into(frame, 0, len(frame) - LENGTH_SIZE)
        return frame


class RepeatedFetches(dict[bytes, RepeatedFetch]):
    """The repeated fetches of one connection. The key has all bytes that stay the same."""

    __slots__ = ()

    def remember(
        self,
        frame: memoryview,
        header: Header,
        ask: Ask,
        framed: Callable[[Ask], bytearray],
        policy_of: Callable[[str], ConversionPolicy],
        user: User,
    ) -> None:
        """Adds a fetch. `frame`: the client's request, with its length. `ask`: the request to the
        cluster. `framed`: makes a frame of it."""
        if ask.version != WITH_NAMES or len(frame) > FRAME_MAX:
            return
        body = decode("FetchRequest", header.version, frame[LENGTH_SIZE + header.size :])
        if len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
            return
        policy = policy_of(body.topics[0].topic)
        if policy.size != "exact":
            return
        if len(self) >= REPEATED_MAX:
            self.clear()
        asked = framed(ask)
        at = _offset_at(ask, asked, framed)
        self[key_of(frame)] = RepeatedFetch(header.version, body, asked, at, policy, user)


def _whole(records: memoryview) -> tuple[int, int] | None:
    """The size of the whole batches, and the offset after them. A broker's response ends at its
    limit, perhaps inside a batch. None: the exchange must handle the records, because one is a
    control batch, one of several is compressed, or some bytes are no v2 batch."""
    at, following, is_compressed = 0, 0, False
    while len(records) - at >= BATCH.size:
        base, length, _, magic, _, attributes, delta = BATCH.unpack_from(records, at)
        end = at + LENGTH_END + length
        if end > len(records):
            break
        is_compressed |= bool(attributes & CODECS)
        if magic != V2 or attributes & CONTROL or (at and is_compressed) or end < at + BATCH.size:
            return None
        at, following = end, max(base + delta + 1, following)
    return (at, following) if at else None


def _offset_at(ask: Ask, asked: bytearray, framed: Callable[[Ask], bytearray]) -> int:
    """The position of the offset in a frame: where the frame of another offset differs."""
    assert ask.body is not None
    partition = ask.body.topics[0].partitions[0]
    offset = partition.fetch_offset
    partition.fetch_offset = ~offset  # an offset that differs in each byte
    other = framed(ask)
    partition.fetch_offset = offset
    return next(at for at, byte in enumerate(asked) if byte != other[at])


def offset_of(frame: memoryview) -> int:
    """The offset that a fetch of one partition asks for."""
    (offset,) = OFFSET.unpack_from(frame, len(frame) - OFFSET_FROM_END)
    return int(offset)


def key_of(frame: memoryview) -> bytes:
    """The bytes of a fetch of one partition without its correlation id and its offset."""
    return b"".join(
        (
            frame[KIND],
            frame[CORRELATION_AT + CORRELATION.size : -OFFSET_FROM_END],
            frame[-LIMIT_SIZE:],
        )
    )
