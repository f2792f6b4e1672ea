"""The byte layouts of message formats v0, v1 and v2. Each field is written once, and positions are
derived.

All integers are big-endian. A log consists of *entries*: a v0 or v1 message, or a v2 batch, after a
prefix of offset and size. docs/formats.md has diagrams. Source: Kafka's Records, LegacyRecord,
DefaultRecordBatch and DefaultRecord.

Not here: reading them (batch.py), converting them (kernel.py)."""

from enum import IntEnum
from struct import Struct
from typing import Final

V0: Final = 0
V1: Final = 1
V2: Final = 2

# --- every entry
PREFIX: Final = Struct(">qi")  # offset, size of the rest
MAGIC_AT: Final = PREFIX.size + 4  # after the CRC (v0, v1) or the leader epoch (v2)
ENTRY_HEAD_SIZE: Final = MAGIC_AT + 1
assert MAGIC_AT == 16  # the only field with the same position in all three formats

# --- v0 and v1: a message
ATTRIBUTES_AT_LEGACY: Final = MAGIC_AT + 1
MESSAGE_HEAD: Final = {
    V0: Struct(">qiIbb"),  # offset, size, crc, magic, attributes
    V1: Struct(">qiIbbq"),  # the same, timestamp
}
CRC: Final = Struct(">I")  # CRC-32 of a message, CRC-32C of a batch
SIZE_FIELD: Final = Struct(">i")  # of key, value: -1 is null
MESSAGE_OVERHEAD: Final = {m: s.size + 2 * SIZE_FIELD.size for m, s in MESSAGE_HEAD.items()}
MESSAGE_SIZE_MIN: Final = MESSAGE_OVERHEAD[V0] - PREFIX.size
CRC_AT_LEGACY: Final = PREFIX.size
assert MESSAGE_OVERHEAD == {V0: 26, V1: 34}
assert MESSAGE_SIZE_MIN == 14

# --- v2: a batch
BATCH_HEADER: Final = Struct(">qiibIhiqqqhii")
BATCH_HEADER_FIELDS: Final = (
    "base_offset",
    "size",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "records_count",
)
BATCH_HEADER_SIZE: Final = BATCH_HEADER.size
BATCH_SIZE_MIN: Final = BATCH_HEADER_SIZE - PREFIX.size
CRC_AT_BATCH: Final = MAGIC_AT + 1
ATTRIBUTES_AT_BATCH: Final = CRC_AT_BATCH + 4  # the CRC-32C covers the batch from here on
assert BATCH_HEADER_SIZE == 61
assert ATTRIBUTES_AT_BATCH == 21

# --- attribute bits
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10  # this and the following ones only in v2
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40  # the base timestamp field is the horizon (KAFKA-8522)

NO_TIMESTAMP: Final = -1
RECORD_SIZE_MIN: Final = 7  # a v2 record without key, value and headers: seven fields of one byte


class Codec(IntEnum):
    """Compression codecs by the number in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """The meaning of a record's timestamp. v0 has none."""

    NONE = -1
    CREATE = 0
    LOG_APPEND = 1


TIMESTAMP_TYPE_NAMES: Final = {  # as Kafka prints them
    TimestampType.NONE: "NoTimestampType",
    TimestampType.CREATE: "CreateTime",
    TimestampType.LOG_APPEND: "LogAppendTime",
}
