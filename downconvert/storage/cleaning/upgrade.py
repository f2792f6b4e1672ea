"""Upgrades batches of v0 and v1 to v2: the same records, in the same order, at the same offsets.

A compressed message becomes a batch of the same codec. Uncompressed messages are combined, as by a
producer. Large data becomes several batches, and is never in memory as a whole. Batches of v2 stay
as they are.

Fields that only v2 has stay empty: no headers, producers or leader epochs. A v0 record then has
timestamp -1, which v2 calls a CreateTime, as after a conversion by a broker.

Not here: files and directories (upgrade_log.py)."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

from records import BatchHeader, Codec, Records, TimestampType
from records.batches.builder import build
from records.batches.reader import Record, read_batch
from records.checksum import verify_checksum
from records.formats import V2
from records.units import KiB, MiB

# Bytes of keys and values in one batch. A producer's batches have 16 KB by default; compressed ones
# may be as large as the broker accepts.
PLAIN_SIZE_MAX: Final = 16 * KiB
COMPRESSED_SIZE_MAX: Final = MiB
RECORD_OVERHEAD: Final = 16  # bytes, about
OFFSET_DELTA_MAX: Final = 2**31 - 1


@dataclass(slots=True)
class UpgradeCount:
    """Batches, records and bytes before and after."""

    batches_in: int = 0
    batches_converted: int = 0
    batches_out: int = 0
    records_converted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: "UpgradeCount") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def upgrade_batches(
    records: Records, count: UpgradeCount, *, record_size_max: int | None = None
) -> Iterator[bytes]:
    """The upgraded batches of a log. `count` adds up the numbers.

    CorruptRecordsError: a record cannot be read. RecordTooLargeError: a record that must be held in
    memory is larger than `record_size_max`."""
    for data in _batches(records, count, record_size_max):
        count.batches_out += 1
        count.bytes_out += len(data)
        yield data


def upgraded(record: Record) -> Record:
    """A record as it will be read from v2."""
    if record.timestamp_type is not TimestampType.NONE:
        return record
    return replace(record, timestamp_type=TimestampType.CREATE)


def _batches(records: Records, count: UpgradeCount, record_size_max: int | None) -> Iterator[bytes]:
    group: list[Record] = []
    codec = Codec.NONE
    size = 0
    for header in records.batches():
        count.batches_in += 1
        count.bytes_in += header.size
        is_old = header.magic < V2
        # Only uncompressed messages are combined.
        if group and not (is_old and header.codec is codec is Codec.NONE):
            yield _built(group, codec)
            group, size = [], 0
        if not is_old:
            yield _copied(records, header)
            continue
        codec = header.codec
        size_max = COMPRESSED_SIZE_MAX if codec else PLAIN_SIZE_MAX
        count.batches_converted += 1
        for record in read_batch(records, header, record_size_max=record_size_max):
            count.records_converted += 1
            record_size = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD
            is_full = size + record_size > size_max
            if group and (is_full or not _fit_together(group, record)):
                yield _built(group, codec)
                group, size = [], 0
            group.append(upgraded(record))
            size += record_size
    if group:
        yield _built(group, codec)


def _fit_together(group: list[Record], record: Record) -> bool:
    """Whether a record may join the batch: its offset is above the others, but not too far, and
    under LogAppendTime it has their timestamp."""
    before = group[-1]
    if not before.offset < record.offset <= group[0].offset + OFFSET_DELTA_MAX:
        return False
    if before.timestamp_type is not upgraded(record).timestamp_type:
        return False
    is_appended = before.timestamp_type is TimestampType.LOG_APPEND
    return not is_appended or before.timestamp == record.timestamp


def _built(group: list[Record], codec: Codec) -> bytes:
    return build(group, magic=V2, codec=codec, timestamp_type=group[0].timestamp_type)


def _copied(records: Records, header: BatchHeader) -> bytes:
    verify_checksum(records, header)
    data = bytearray(header.size)
    records.read_into(memoryview(data), header.position)
    return bytes(data)
