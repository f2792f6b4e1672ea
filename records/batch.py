"""The header of one entry of a log: all facts about a batch that need no reading of its body.

An entry is a v2 batch, or one v0 or v1 message, which Kafka treats as a batch of its own. Sources:
Kafka's DefaultRecordBatch, LegacyRecord and FileLogInputStream.

Not here: reading entry after entry (source.py), checksums and records (reader.py)."""

from typing import Final, NamedTuple, Self

from .errors import CorruptRecordsError
from .formats import (
    ATTRIBUTES_AT_BATCH,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    BATCH_SIZE_MIN,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    ENTRY_HEAD_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MESSAGE_HEAD,
    MESSAGE_OVERHEAD,
    MESSAGE_SIZE_MIN,
    NO_TIMESTAMP,
    PREFIX,
    SIZE_FIELD,
    TRANSACTIONAL,
    V0,
    V1,
    V2,
    Codec,
    TimestampType,
)
from .kernel import Buffer

CODECS: Final = tuple(Codec)
TIMESTAMP_TYPES: Final = TimestampType.CREATE, TimestampType.LOG_APPEND  # by the attribute's bit
SIZE_AT: Final = PREFIX.size - SIZE_FIELD.size
ENTRY_SIZE_MIN: Final = PREFIX.size + MESSAGE_SIZE_MIN
OFFSET_MIN, OFFSET_MAX = -(2**63), 2**63 - 1  # of 64-bit integers
SEQUENCE_MAX: Final = 2**31 - 1  # sequence numbers wrap to 0 after it
NONE: Final = -1  # no producer id, producer epoch, sequence or leader epoch


def entry_size(buffer: Buffer, at: int, position: int) -> int:
    """The size in bytes of the whole entry at `buffer[at:]`. The buffer must hold its first 17
    bytes.

    Checks size and magic (rule 2 of a log in kernel.py). `position` is for the error."""
    size: int = SIZE_FIELD.unpack_from(buffer, at + SIZE_AT)[0]
    if size < MESSAGE_SIZE_MIN:
        raise CorruptRecordsError("entry is smaller than a message header", position)
    if buffer[at + MAGIC_AT] > V2:
        raise CorruptRecordsError("unknown magic", position)
    return PREFIX.size + size


class BatchHeader(NamedTuple):
    """The fields of a batch's header; for a v0 or v1 message, the values that Kafka reports.

    A compressed v0 or v1 message (a wrapper) has only its last offset. Its true base offset is
    inside the compressed data, so here base and last offset are both the message's offset.

    It is a tuple because reading through a log makes one for each entry, and a frozen dataclass
    with as many fields takes five times as long to make."""

    position: int  # of the entry's first byte, in the records that it was read from
    magic: int
    size: int  # bytes, with the 12 of the prefix
    base_offset: int
    last_offset_delta: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int  # milliseconds; the delete horizon if there is one
    max_timestamp: int  # milliseconds; of all records under LogAppendTime
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int | None  # unverified; None for v0 and v1, which have no count
    codec: Codec

    @classmethod
    def parse(cls, buffer: Buffer, at: int, position: int, origin: int = 0) -> Self:
        """Reads the head of the entry at `buffer[at:]`: 18 bytes of v0, 26 of v1, 61 of v2.

        The rest of the entry may be missing. The header gets `position`. ValueError: the buffer
        ends within the head. CorruptRecordsError, with `origin + position`: the size, the format or
        the codec is invalid."""
        left = len(buffer) - at
        if at < 0 or left < ENTRY_HEAD_SIZE:
            raise ValueError("the head of the entry is not whole in the buffer")
        size: int = PREFIX.size + SIZE_FIELD.unpack_from(buffer, at + SIZE_AT)[0]
        magic = buffer[at + MAGIC_AT]
        if magic > V2 or size < ENTRY_SIZE_MIN:
            entry_size(buffer, at, origin + position)  # raises the error
        if magic == V2:
            if size < BATCH_HEADER_SIZE:
                raise CorruptRecordsError("batch is smaller than its header", origin + position)
            if left < BATCH_HEADER_SIZE:
                raise ValueError("the header of the batch is not whole in the buffer")
            (
                base_offset,
                _,
                leader_epoch,
                _,
                crc,
                attributes,
                last_offset_delta,
                base_timestamp,
                max_timestamp,
                producer_id,
                producer_epoch,
                base_sequence,
                records_count,
            ) = BATCH_HEADER.unpack_from(buffer, at)
            number = attributes & CODEC_MASK
            codec = CODECS[number] if number < len(CODECS) else codec_of(number, origin + position)
            fields = (
                position,
                magic,
                size,
                base_offset,
                last_offset_delta,
                leader_epoch,
                crc,
                attributes,
                base_timestamp,
                max_timestamp,
                producer_id,
                producer_epoch,
                base_sequence,
                records_count,
                codec,
            )
            return tuple.__new__(cls, fields)  # as `cls(*fields)`, without a call in between
        return cls._parse_message(buffer, at, position, origin, magic, size)

    @classmethod
    def _parse_message(
        cls, buffer: Buffer, at: int, position: int, origin: int, magic: int, size: int
    ) -> Self:
        """Reads the head of a v0 or v1 message, as `parse` does."""
        if size < MESSAGE_OVERHEAD[magic]:
            raise CorruptRecordsError("message is smaller than its header", origin + position)
        head = MESSAGE_HEAD[magic]
        if len(buffer) - at < head.size:
            raise ValueError("the head of the message is not whole in the buffer")
        offset, _, crc, _, attributes, *timestamps = head.unpack_from(buffer, at)
        timestamp = timestamps[0] if timestamps else NO_TIMESTAMP
        codec = codec_of(attributes, origin + position)
        return cls(
            position,
            magic,
            size,
            offset,
            0,
            NONE,
            crc,
            attributes,
            timestamp,
            timestamp,
            NONE,
            NONE,
            NONE,
            None,
            codec,
        )

    @property
    def last_offset(self) -> int:
        """The offset of the last record when the entry was written. Compaction may have removed
        that record."""
        last = self.base_offset + self.last_offset_delta
        return last if OFFSET_MIN <= last <= OFFSET_MAX else wrapped(last)

    def at(self, position: int) -> Self:
        """The same entry, at another position."""
        return tuple.__new__(type(self), (position, *self[1:]))

    def placed(self, base_offset: int, leader_epoch: int) -> Self:
        """The same entry, with another base offset and leader epoch."""
        fields: list[object] = list(self)
        fields[BASE_OFFSET], fields[LEADER_EPOCH] = base_offset, leader_epoch
        return tuple.__new__(type(self), fields)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record when the batch was written, or -1."""
        return self.sequence(self.last_offset_delta)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether timestamps are the producer's, or those of the append to the log."""
        if self.magic == V0:
            return TimestampType.NONE
        return TIMESTAMP_TYPES[self.attributes >> 3 & 1]

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction. Always False before v2."""
        return self.magic == V2 and bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a control record (a transaction marker) in place of data. Always False
        before v2."""
        return self.magic == V2 and bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time after which tombstones are removed
        (KAFKA-8522)."""
        return self.magic == V2 and bool(self.attributes & DELETE_HORIZON)

    def sequence(self, offset_delta: int) -> int:
        """The sequence number of the record at base offset + delta; -1 if the batch has none."""
        if self.base_sequence == NONE:
            return NONE
        return (self.base_sequence + offset_delta) & SEQUENCE_MAX


BASE_OFFSET: Final = BatchHeader._fields.index("base_offset")
LEADER_EPOCH: Final = BatchHeader._fields.index("leader_epoch")


def wrapped(offset: int) -> int:
    """A sum or difference of offsets, wrapped to 64 bits."""
    return (offset + 2**63) % 2**64 - 2**63


def codec_of(attributes: int, position: int) -> Codec:
    """The codec in a message's or batch's attributes; `position` is for the error."""
    number = attributes & CODEC_MASK
    if number >= len(CODECS):
        raise CorruptRecordsError("unknown codec", position)
    return CODECS[number]


assert LOG_APPEND_TIME >> 3 == TimestampType.LOG_APPEND
assert ATTRIBUTES_AT_BATCH < BATCH_SIZE_MIN
assert MESSAGE_HEAD[V1].size <= MESSAGE_OVERHEAD[V0]  # a whole entry has the head of a message
