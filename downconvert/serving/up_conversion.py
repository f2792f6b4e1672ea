"""Rewrites records in the format and codec of their topic.

Old producers send v0 and v1. A topic is kept in v2, unless it is configured to be older. One
request becomes one batch, as in Kafka, with offsets from 0 on regardless of the offsets sent. A v0
record gets timestamp -1, as a CreateTime in v2. Under LogAppendTime all get the time of the append.

If a request has few records, they are held while they are rewritten. Otherwise they are compressed
as they are read. The decompressed size is bounded, since compressed records may expand to any size.

Not here: whether records may be appended (appending.py), upgrading a whole directory
(downconvert/storage/cleaning/upgrade.py)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from downconvert.protocol.errors import ApiError, ErrorCode
from records import (
    BatchHeader,
    Columns,
    MemoryRecords,
    Record,
    RecordTooLargeError,
    build,
    read,
)
from records.batches.batch_stream import BatchStream
from records.codecs import CodecLevel
from records.formats import V0, V2, Codec, TimestampType
from records.record import Headers

from .append_config import AppendConfig

# The limit of held bytes, as a multiple of the largest batch. Text compresses to a tenth of its
# size.
EXPANSION_MAX: Final = 16
RECORD_OVERHEAD: Final = 16  # bytes, about, so that empty records count too
RECORD_MAX: Final = 16 << 20  # bytes of one record, if the largest batch is smaller
# Bytes of a request's records that are held uncompressed. Records that expand to more are
# compressed as they are read, one request at a time.
HELD_MAX: Final = 1 << 20


class ExpandsError(Exception):
    """The records take more memory than may be held."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Records that will be rewritten in one batch. For v0 and v1 without a codec, each record is
    one message."""

    columns: Columns
    magic: int
    codec: Codec
    level: CodecLevel
    append_time: int | None  # milliseconds; None: the records' own timestamps
    producer: tuple[int, int, int]  # id, epoch, base sequence
    is_transactional: bool

    def build(self, base_offset: int) -> bytearray:
        """The rewritten bytes, with offsets from `base_offset` on."""
        columns = self.columns
        offsets = range(base_offset, base_offset + len(columns))
        placed = Columns(offsets, columns.timestamps, columns.keys, columns.values, columns.headers)
        is_append = self.append_time is not None and self.magic != V0
        kind = TimestampType.LOG_APPEND if is_append else TimestampType.CREATE
        producer_id, producer_epoch, base_sequence = self.producer
        return bytearray(
            build(
                placed,
                magic=self.magic,
                codec=self.codec,
                timestamp_type=kind,
                append_time=self.append_time if is_append else None,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                transactional=self.is_transactional,
                compression_level=self.level,
            )
        )

    @property
    def needs_offsets(self) -> bool:
        """Whether the base offset changes more than the entries' offset fields. It does for
        compressed v0: the messages inside have absolute offsets."""
        return self.magic == V0 and self.codec is not Codec.NONE


def rewrite(
    records: MemoryRecords,
    first: BatchHeader,
    codec: Codec,
    config: AppendConfig,
    now: int,
    check: Callable[[int, Record], None],
    held_max: int | None = None,
) -> Rewritten:
    """Reads all records, and calls `check` for each. `first`: the first batch. `codec`: of any
    compressed batch. held_max: bytes that may be held; None: as many as a request may have.

    Raises ExpandsError if they are more than `held_max`. Raises ApiError if the topic's format
    cannot hold them, or they are too many. Reading raises CorruptRecordsError and
    RecordTooLargeError."""
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    all_headers: list[Headers] = []
    for record in _checked(records, codec, config, check, held_max):
        timestamps.append(record.timestamp)
        keys.append(record.key)
        values.append(record.value)
        all_headers.append(record.headers)
    if config.codec is not None:
        codec = config.codec
    producer = first.producer_id, first.producer_epoch, first.base_sequence
    has_headers = any(all_headers)
    if config.magic < V2:
        _check_old(config.magic, codec, has_headers)
    append_time = now if config.is_append_time else None
    if append_time is not None:
        timestamps = [append_time] * len(timestamps)
    columns = Columns(
        range(len(keys)), timestamps, keys, values, all_headers if has_headers else ()
    )
    transactional = first.is_transactional
    return Rewritten(
        columns, config.magic, codec, config.level, append_time, producer, transactional
    )


def rewrite_as_stream(
    records: MemoryRecords,
    first: BatchHeader,
    codec: Codec,
    config: AppendConfig,
    now: int,
    check: Callable[[int, Record], None],
) -> tuple[bytes, int]:
    """A v2 batch, and its number of records. Only a window is held at a time. Errors are those of
    `rewrite`."""
    stream = BatchStream(
        codec if config.codec is None else config.codec,
        append_time=now if config.is_append_time else None,
        producer=(first.producer_id, first.producer_epoch, first.base_sequence),
        transactional=first.is_transactional,
        compression_level=config.level,
        size_max=config.message_size_max,
    )
    for record in _checked(records, codec, config, check, None):
        stream.add(record)
    return stream.finish(), stream.records_count


def _checked(
    records: MemoryRecords,
    codec: Codec,
    config: AppendConfig,
    check: Callable[[int, Record], None],
    held_max: int | None,
) -> Iterator[Record]:
    size_max = EXPANSION_MAX * config.message_size_max
    record_max = min(size_max, max(RECORD_MAX, config.message_size_max))
    if held_max is not None:
        record_max = min(record_max, held_max)
    size = 0
    try:
        # Checksums inside compressed messages have not been compared yet.
        found = read(records, verify=bool(codec), record_size_max=record_max)
        for index, record in enumerate(found):
            size += len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD
            if size > size_max:
                reason = f"the records expand to more than {size_max} bytes"
                raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, reason)
            if held_max is not None and size > held_max:
                raise ExpandsError
            check(index, record)
            yield record
    except RecordTooLargeError:
        if held_max is not None:
            raise ExpandsError from None
        raise


def _check_old(magic: int, codec: Codec, has_headers: bool) -> None:
    """Raises ApiError for features that v0 and v1 do not have."""
    if codec is Codec.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"message format v{magic} has no zstd"
        )
    if has_headers:
        raise ApiError(ErrorCode.INVALID_RECORD, f"message format v{magic} has no headers")
