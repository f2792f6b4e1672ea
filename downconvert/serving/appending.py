"""Validates the records of a produce request, and assigns their offsets.

Nothing is trusted: sizes, checksums, counts and every record are checked before anything is
appended. Records that stay unchanged are checked a window at a time. A batch in the topic's format
and codec stays unchanged, except for its base offset and leader epoch, which no checksum covers,
and under LogAppendTime its timestamp. All other batches are rewritten (up_conversion.py).

The rules and the error codes are those of Kafka's LogValidator and UnifiedLog. Two rules are
stricter, so that every stored record can be converted: a timestamp below -1 is refused, and offsets
inside an uncompressed batch are made consecutive, as in a compressed one.

Not here: appending (partition.py), duplicates of idempotent producers (sequences.py), open
transactions (transactions/coordinator.py)."""

from collections.abc import Generator, Iterable
from dataclasses import replace
from functools import partial
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple

from downconvert.protocol.errors import ApiError, ErrorCode
from records import BatchHeader, CorruptRecordsError, MemoryRecords, RecordTooLargeError
from records.batches.columns import AT, FIELDS
from records.batches.keyed_batch import keyed_batch
from records.batches.reader import read_rows, summarize
from records.checksum import MISMATCH, verify_checksum
from records.crc32c import crc32c
from records.formats import (
    ATTRIBUTES_AT_BATCH,
    CODEC_MASK,
    CONTROL,
    CRC,
    CRC_AT_BATCH,
    LOG_APPEND_TIME,
    MAGIC_AT,
    NO_TIMESTAMP,
    PREFIX,
    TRANSACTIONAL,
    V2,
    Codec,
    TimestampType,
)
from records.kernel import Buffer
from records.steps import at_once
from records.units import MiB

from .append_config import AppendConfig
from .record_checks import RecordChecks, are_fine
from .up_conversion import (
    EXPANSION_MAX,
    HELD_MAX,
    ExpandsError,
    Rewritten,
    rewrite,
    rewrite_as_stream,
)

PLACE: Final = Struct(PREFIX.format + "i")  # offset, size, leader epoch of a v2 batch
ATTRIBUTES: Final = Struct(">h")
TIMESTAMP: Final = Struct(">q")
CODEC_AT: Final = ATTRIBUTES_AT_BATCH + 1  # the byte of a v2 batch with its codec
MAX_TIMESTAMP_AT: Final = ATTRIBUTES_AT_BATCH + 14  # after attributes, delta, base timestamp
OFFSETS, TIMESTAMPS, KEY_SIZES, VALUE_SIZES = (
    slice(AT[field], None, FIELDS) for field in ("offset", "timestamp", "key_size", "value_size")
)
TURN_SIZE: Final = 2 * MiB  # bytes of keys and values that are checked in one turn
CREATE: Final = TimestampType.CREATE
EXPANDING: Final = Lock()  # held while a request that expands to much is rewritten
assert PLACE.size == MAGIC_AT


class Appended(NamedTuple):
    """The position of records in the log."""

    base_offset: int
    last_offset: int
    log_append_time: int  # milliseconds; -1: they keep the producer's timestamps


class Prepared:
    """Batches that may be appended, with offsets from 0 on."""

    __slots__ = ("batches", "data", "is_converted", "log_append_time", "records_count", "rewritten")

    def __init__(
        self,
        data: bytearray,
        records_count: int,
        log_append_time: int = NO_TIMESTAMP,
        rewritten: Rewritten | None = None,
        *,
        is_converted: bool = False,
        batches: list[BatchHeader] | None = None,
    ) -> None:
        """`rewritten`: set if the bytes depend on the base offset. `batches`: the headers of
        `data`, if they have been read."""
        self.data = data
        self.records_count = records_count
        self.log_append_time = log_append_time
        self.rewritten = rewritten
        self.is_converted = is_converted
        self.batches = list(MemoryRecords(data).batches()) if batches is None else batches

    def place(
        self, base_offset: int, leader_epoch: int
    ) -> tuple[bytearray, list[BatchHeader] | None]:
        """The batches with their final offsets, and their headers. None instead of headers: read
        them from the bytes."""
        if self.rewritten is not None:
            return self.rewritten.build(base_offset), None
        placed = []
        for header in self.batches:
            offset, size = base_offset + header.base_offset, header.size - PREFIX.size
            epoch = header.leader_epoch
            if header.magic == V2:
                epoch = leader_epoch
                PLACE.pack_into(self.data, header.position, offset, size, epoch)
            else:
                PREFIX.pack_into(self.data, header.position, offset, size)
            placed.append(header.placed(offset, epoch))
        return self.data, placed


def prepare(
    data: memoryview, config: AppendConfig, now: int, *, by_coordinator: bool = False
) -> Prepared | None:
    """As `prepare_in_turns`, for their bytes, and in one turn."""
    if not by_coordinator and (prepared := prepare_ordinary(data, config, now)) is not None:
        return prepared
    records = MemoryRecords(data)
    batches = records.batches()
    return at_once(prepare_in_turns(records, batches, config, now, by_coordinator=by_coordinator))


def prepare_in_turns(
    records: MemoryRecords,
    headers: Iterable[BatchHeader],
    config: AppendConfig,
    now: int,
    *,
    by_coordinator: bool = False,
) -> Generator[None, None, Prepared | None]:
    """Validates a request's records for one partition. Returns None if there is no whole batch.
    `now` in milliseconds. headers: of all batches. by_coordinator: the records are a coordinator's
    own, without sequence numbers. Yields after some MiB of records that stay as they are, because a
    batch may expand to any size.

    Bytes after the last whole batch are dropped. Raises ApiError with the reason for a refusal."""
    try:
        first, codec = _check_batches(records, headers, config, by_coordinator=by_coordinator)
    except CorruptRecordsError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if first is None:
        return None
    try:
        if not needs_rewriting(first, codec, config):
            prepared = yield from _as_it_is(records, first, config, now)
            if prepared is not None:
                return prepared
        return _rewritten(records, first, codec, config, now)
    except CorruptRecordsError as error:
        # A mismatch is possible only inside a compressed message: all other checksums have been
        # compared.
        is_corrupt = error.reason == MISMATCH
        code = ErrorCode.CORRUPT_MESSAGE if is_corrupt else ErrorCode.INVALID_RECORD
        raise ApiError(code, str(error)) from error
    except RecordTooLargeError as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error


def prepare_own(
    pairs: Iterable[tuple[bytes, bytes | None]],
    config: AppendConfig,
    now: int,
    producer: tuple[int, int] | None = None,
) -> Prepared:
    """A batch of keys and values that a coordinator of this process stores. `producer`: the id and
    epoch of its transaction. ApiError as `prepare`.

    If the topic takes the batch unchanged, only its size is checked. It stays v2, because older
    formats have no transactions, and records that only brokers read are never converted."""
    data, header = keyed_batch(pairs, now, producer)
    if config.is_append_time or config.codec:
        config = replace(config, magic=V2)
        prepared = prepare(memoryview(data), config, now, by_coordinator=True)
        assert prepared is not None
        return prepared
    if len(data) > config.message_size_max:
        raise _too_large(len(data), config)
    return Prepared(data, header.last_offset_delta + 1, batches=[header])


def prepare_ordinary(data: Buffer, config: AppendConfig, now: int) -> Prepared | None:
    """As `prepare_in_turns` for one v2 batch without errors that keeps its records, as most are.
    One call of the kernel checks it. None: call `prepare_in_turns`."""
    size, size_max, target = len(data), config.message_size_max, config.codec
    if size > size_max or config.magic != V2:
        return None
    if target is not None and size > CODEC_AT and data[CODEC_AT] & CODEC_MASK != target:
        return None  # it is decompressed once, to be compressed again
    found = summarize(data, record_size_max=EXPANSION_MAX * size_max)
    if found is None:
        return None
    header, (_, count, are_consecutive, oldest, newest, without_key) = found
    if header.base_offset or not are_consecutive:
        return None
    try:
        _check_batch(header, header, config, by_coordinator=False)
    except ApiError:
        return None
    if header.attributes & LOG_APPEND_TIME:
        return None
    if not are_fine(config, now, CREATE, oldest, newest, have_keys=not without_key):
        return None
    if config.is_append_time or newest != header.max_timestamp:
        return _unchanged(data, header, config, now, count, newest)
    return Prepared(bytearray(data), count, batches=[header])


def needs_rewriting(first: BatchHeader, codec: Codec, config: AppendConfig) -> bool:
    """Whether format or codec differ from the topic's. `codec`: of any batch in the request."""
    target = codec if config.codec is None else config.codec
    return not (first.magic == V2 == config.magic and codec is target)


# --- batches


def _check_batches(
    records: MemoryRecords,
    headers: Iterable[BatchHeader],
    config: AppendConfig,
    *,
    by_coordinator: bool,
) -> tuple[BatchHeader | None, Codec]:
    """Checks everything but the records. Returns the first batch, or None without one, and the
    codec of any compressed batch."""
    first: BatchHeader | None = None
    codec, count = Codec.NONE, 0
    for header in headers:
        first = first or header
        if header.magic == V2 and header.base_offset:
            raise _invalid(f"the base offset should be 0, but it is {header.base_offset}")
        if header.size > config.message_size_max:
            raise _too_large(header.size, config)
        verify_checksum(records, header)
        _check_batch(header, first, config, by_coordinator=by_coordinator)
        codec = header.codec or codec
        count += 1
    if count > 1 and first is not None and (first.magic == V2 or codec):
        raise _invalid("more than one batch")
    return first, codec


def _check_batch(
    header: BatchHeader, first: BatchHeader, config: AppendConfig, *, by_coordinator: bool
) -> None:
    if header.magic != first.magic:
        raise _invalid(f"message formats v{first.magic} and v{header.magic} in one request")
    if header.magic < V2:
        return
    count = header.records_count or 0
    if count <= 0 or count != header.last_offset_delta + 1:
        raise _invalid(f"{count} records up to offset delta {header.last_offset_delta}")
    if header.attributes & CONTROL:
        raise _invalid("clients may not write control records")
    if header.attributes & TRANSACTIONAL and header.producer_id < 0:
        raise _invalid("a transaction without a producer id")
    if header.producer_id >= 0 and header.base_sequence < 0 and not by_coordinator:
        raise _invalid(f"sequence number {header.base_sequence} of producer {header.producer_id}")
    if header.producer_id >= 0 and config.magic < V2:
        raise ApiError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "the topic's format has no producer ids"
        )


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, reason)


def _too_large(size: int, config: AppendConfig) -> ApiError:
    reason = f"a batch of {size} bytes, and the topic takes {config.message_size_max}"
    return ApiError(ErrorCode.MESSAGE_TOO_LARGE, reason)


# --- records


def _as_it_is(
    records: MemoryRecords, header: BatchHeader, config: AppendConfig, now: int
) -> Generator[None, None, Prepared | None]:
    """Checks a v2 batch that need not be rewritten. Returns None if its offsets have gaps."""
    kind, size_max = header.timestamp_type, EXPANSION_MAX * config.message_size_max
    checks = RecordChecks(config, now)
    count, latest, size = 0, NO_TIMESTAMP, 0
    for rows in read_rows(records, header, record_size_max=size_max):
        with memoryview(rows).cast("q") as fields:
            offsets = fields[OFFSETS].tolist()
            timestamps = fields[TIMESTAMPS].tolist()
            key_sizes = fields[KEY_SIZES].tolist()
            size += sum(key_sizes) + sum(fields[VALUE_SIZES].tolist())
        if offsets != list(range(count, count + len(offsets))):
            return None
        checks.check_all(count, timestamps, kind, key_sizes)
        latest = max(latest, *timestamps)
        count += len(offsets)
        if size > TURN_SIZE:
            size = 0
            yield
    checks.finish()
    return _unchanged(records.view[: header.size], header, config, now, count, latest)


def _unchanged(
    batch: Buffer,
    header: BatchHeader,
    config: AppendConfig,
    now: int,
    count: int,
    latest: int,
) -> Prepared:
    """A batch that keeps its records. `latest`: their highest timestamp."""
    data = bytearray(batch)
    append_time = now if config.is_append_time else NO_TIMESTAMP
    attributes = header.attributes & ~LOG_APPEND_TIME
    if config.is_append_time:
        attributes |= LOG_APPEND_TIME
    highest = append_time if config.is_append_time else latest
    if (attributes, highest) != (header.attributes, header.max_timestamp):
        ATTRIBUTES.pack_into(data, ATTRIBUTES_AT_BATCH, attributes)
        TIMESTAMP.pack_into(data, MAX_TIMESTAMP_AT, highest)
        CRC.pack_into(data, CRC_AT_BATCH, crc32c(memoryview(data)[ATTRIBUTES_AT_BATCH:]))
        return Prepared(data, count, append_time)
    return Prepared(data, count, append_time, batches=[header])


def _rewritten(
    records: MemoryRecords, first: BatchHeader, codec: Codec, config: AppendConfig, now: int
) -> Prepared:
    """The records in the topic's own format and codec."""
    try:
        return _held(records, first, codec, config, now, HELD_MAX)
    except ExpandsError:
        with EXPANDING:
            if config.magic == V2:
                return _streamed(records, first, codec, config, now)
            return _held(records, first, codec, config, now, None)


def _held(
    records: MemoryRecords,
    first: BatchHeader,
    codec: Codec,
    config: AppendConfig,
    now: int,
    held_max: int | None,
) -> Prepared:
    checks = RecordChecks(config, now)
    check = partial(checks.check_record, first.magic)
    rewritten = rewrite(records, first, codec, config, now, check, held_max)
    checks.finish()
    append_time = NO_TIMESTAMP if rewritten.append_time is None else rewritten.append_time
    data, count = rewritten.build(0), len(rewritten.columns)
    whenever = rewritten if rewritten.needs_offsets else None
    return _not_too_large(Prepared(data, count, append_time, whenever, is_converted=True), config)


def _streamed(
    records: MemoryRecords, first: BatchHeader, codec: Codec, config: AppendConfig, now: int
) -> Prepared:
    checks = RecordChecks(config, now)
    check = partial(checks.check_record, first.magic)
    data, count = rewrite_as_stream(records, first, codec, config, now, check)
    checks.finish()
    append_time = now if config.is_append_time else NO_TIMESTAMP
    prepared = Prepared(bytearray(data), count, append_time, is_converted=True)
    return _not_too_large(prepared, config)


def _not_too_large(prepared: Prepared, config: AppendConfig) -> Prepared:
    for header in prepared.batches:
        if header.size > config.message_size_max:
            raise _too_large(header.size, config)
    return prepared
