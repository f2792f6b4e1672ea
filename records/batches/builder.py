"""Builds batches as a producer or a broker would have written them, in any format.

In v2, one call builds one batch. In v0 and v1, it builds one message for each record, or with a
codec one message that contains the others compressed. Invalid input, such as offsets that do not
increase, is written as requested, because tests need damaged batches too.

Not here: the encoding of records (kernel_functions.py: `Encode`), compression (codecs).

Sources: Kafka's MemoryRecordsBuilder, DefaultRecordBatch and AbstractLegacyRecordBatch."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from records.backend import encode
from records.batch import NONE
from records.codecs import CodecLevel, compress
from records.crc32c import crc32c
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    CONTROL,
    CRC,
    CRC_AT_BATCH,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MESSAGE_OVERHEAD,
    NO_TIMESTAMP,
    PREFIX,
    TRANSACTIONAL,
    V0,
    V1,
    V2,
    Codec,
    TimestampType,
)
from records.kernel import Outcome
from records.record import Record

from .columns import Columns
from .control import KEY, MARKER, ControlRecordType
from .wrapper import build_wrapper

NO_PRODUCER: Final = (NONE, NONE, NONE)  # id, epoch, base sequence
# Bytes of a v2 record beside its key, value and headers: size, attributes, timestamp and offset
# deltas, sizes of key and value, header count. Kafka's MAX_RECORD_OVERHEAD (21) has the first 4.
RECORD_OVERHEAD_MAX: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5


def build(
    records: Columns | Iterable[Record],
    *,
    magic: int,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE,
    append_time: int | None = None,
    append_time_inside: bool = True,
    base_offset: int | None = None,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    delete_horizon: int | None = None,
    leader_epoch: int = NONE,
    producer_id: int = NONE,
    producer_epoch: int = NONE,
    base_sequence: int = NONE,
    transactional: bool = False,
    control: bool = False,
    compression_level: CodecLevel = "kafka",
) -> bytes:
    """The bytes of one batch. ValueError: no records, or a feature that the format lacks.

    Each record's offset, timestamp, key, value and (v2) headers are written. The timestamp type and
    the sequence numbers belong to the batch.

    Timestamps are milliseconds since the epoch.

    append_time: the time of LogAppendTime; by default, the latest timestamp of the records.
    append_time_inside: whether messages inside a compressed one have it too, as since Kafka 0.11.
        Older brokers left the producer's timestamps in them.
    base_offset: the offset that others are relative to; by default, the first record's. Only v2,
        and compressed v1.
    last_offset: the batch's last offset before compaction removed its last records. This and the
        following options are for v2.
    base_timestamp: the timestamp that others are relative to; by default, the first record's.
    delete_horizon: the time after which tombstones are removed. It is stored as base timestamp.

    >>> from records import MemoryRecords, Record
    >>> log = build([Record(offset=7, timestamp=0, value=b"v" * 1000)], magic=2, codec=Codec.GZIP)
    >>> [(header.magic, header.codec.name) for header in MemoryRecords(log).batches()]
    [(2, 'GZIP')]"""
    columns = records if isinstance(records, Columns) else Columns.of(records)
    if not columns.offsets:
        raise ValueError("no records: an empty batch is what build_empty builds")
    is_append = timestamp_type is TimestampType.LOG_APPEND
    latest = max(columns.timestamps) if append_time is None or not is_append else append_time
    base = columns.offsets[0] if base_offset is None else base_offset
    if magic != V2:
        if transactional or control or (producer_id, producer_epoch, base_sequence) != NO_PRODUCER:
            raise ValueError("v0 and v1 have no producers, transactions and control records")
        if (last_offset, base_timestamp, delete_horizon, leader_epoch) != (None, None, None, NONE):
            raise ValueError("v0 and v1 have no last offset, base timestamp, horizon, leader epoch")
        return _legacy(
            columns, magic, codec, compression_level, base, latest, is_append, append_time_inside
        )
    if delete_horizon is not None:
        base_timestamp = delete_horizon
    elif base_timestamp is None:
        base_timestamp = columns.timestamps[0]
    body = encoded_records(columns, magic, timestamp_type, base, base_timestamp)
    return v2_batch(
        compress(codec, body, magic=magic, compression_level=compression_level) if codec else body,
        base_offset=base,
        leader_epoch=leader_epoch,
        attributes=attributes_of(codec, timestamp_type, transactional, control)
        | (0 if delete_horizon is None else DELETE_HORIZON),
        last_offset_delta=(columns.offsets[-1] if last_offset is None else last_offset) - base,
        base_timestamp=base_timestamp,
        max_timestamp=latest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(columns.offsets),
    )


def _legacy(
    columns: Columns,
    magic: int,
    codec: Codec,
    compression_level: CodecLevel,
    base_offset: int,
    latest: int,
    is_append: bool,
    append_time_inside: bool,
) -> bytes:
    """Messages of v0 or v1, or with a codec the message that contains them. `latest`: the timestamp
    of that message, and with LogAppendTime of all messages."""
    if magic == V0 and is_append:
        raise ValueError("v0 has no timestamps")
    timestamp_type = TimestampType.CREATE
    if is_append and (append_time_inside or not codec):
        timestamp_type = TimestampType.LOG_APPEND
        columns = replace(columns, timestamps=[latest] * len(columns))
    relative_to = base_offset if codec and magic == V1 else 0
    messages = encoded_records(columns, magic, timestamp_type, relative_to, NO_TIMESTAMP)
    if not codec:
        return bytes(messages)
    return build_wrapper(
        compress(codec, messages, magic=magic, compression_level=compression_level),
        magic=magic,
        offset=columns.offsets[-1],
        attributes=codec | (LOG_APPEND_TIME if is_append else 0),
        timestamp=latest,
    )


def build_empty(
    *,
    base_offset: int,
    last_offset: int,
    max_timestamp: int = NO_TIMESTAMP,
    timestamp_type: TimestampType = TimestampType.CREATE,
    leader_epoch: int = NONE,
    producer_id: int = NONE,
    producer_epoch: int = NONE,
    base_sequence: int = NONE,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """A v2 batch from which compaction has removed all records. Its header keeps the producer's
    sequence numbers."""
    return v2_batch(
        b"",
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes_of(Codec.NONE, timestamp_type, transactional, control),
        last_offset_delta=last_offset - base_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=0,
    )


def build_marker(
    kind: ControlRecordType,
    *,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    leader_epoch: int = NONE,
) -> bytes:
    """The v2 batch that ends a transaction: a single control record, ABORT or COMMIT.

    timestamp: milliseconds. ValueError: another kind of control record."""
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        raise ValueError("ABORT and COMMIT end a transaction")
    key, value = KEY.pack(0, kind), MARKER.pack(0, coordinator_epoch)
    return build(
        Columns([offset], [timestamp], [key], [value]),
        magic=V2,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def encoded_records(
    columns: Columns,
    magic: int,
    timestamp_type: TimestampType,
    base_offset: int,
    base_timestamp: int,
) -> memoryview:
    """The encoded records, uncompressed, one after the other."""
    rows, source = columns.rows(timestamp_type)
    overhead = RECORD_OVERHEAD_MAX if magic == V2 else MESSAGE_OVERHEAD[magic]
    size_max = len(source) + overhead * len(columns)
    target = bytearray(size_max)
    _, produced, outcome = encode(
        rows, 0, len(rows), source, magic, base_offset, base_timestamp, target, 0, size_max
    )
    assert outcome == Outcome.END, "the target is as large as the records can be"
    return memoryview(target)[:produced]


def attributes_of(
    codec: Codec, timestamp_type: TimestampType, transactional: bool, control: bool
) -> int:
    """The attributes of a v2 batch."""
    return (
        codec
        | (LOG_APPEND_TIME if timestamp_type is TimestampType.LOG_APPEND else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
    )


def v2_batch(
    body: bytes | memoryview,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
) -> bytes:
    """A v2 batch: the header and its records."""
    header = bytearray(
        BATCH_HEADER.pack(
            base_offset,
            BATCH_HEADER_SIZE - PREFIX.size + len(body),
            leader_epoch,
            V2,
            0,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            records_count,
        )
    )
    crc = crc32c(body, crc32c(memoryview(header)[ATTRIBUTES_AT_BATCH:]))
    CRC.pack_into(header, CRC_AT_BATCH, crc)
    return b"".join((header, body))
