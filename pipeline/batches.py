"""The batches of a split, a row for each: headers are read, and nothing else.

Not here: the columns' types (schemas.py), where entries begin and what comes behind damage
(entries.py)."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from pipeline.entries import Entries, corrupt_row
from pipeline.gather import MICROSECONDS, ROWS_MAX, TIMESTAMP_MAX
from pipeline.options import Mode, Options
from pipeline.schemas import TIMESTAMP
from pipeline.splits import Split
from records import BatchHeader, Codec, CorruptRecordsError
from records.formats import NO_TIMESTAMP, V2

CODECS: Final = {codec: codec.name.lower() for codec in Codec}


def records_count(header: BatchHeader) -> int | None:
    """How many records are in a batch; None: a compressed v0 or v1 message does not say."""
    if header.magic == V2:
        return header.records_count
    return 1 if header.codec is Codec.NONE else None


def base_timestamp(header: BatchHeader) -> int:
    return NO_TIMESTAMP if header.has_delete_horizon else header.base_timestamp


FIELDS: Final[dict[str, Callable[[BatchHeader], Any]]] = {
    "position": lambda header: header.position,
    "baseOffset": lambda header: header.base_offset,
    "lastOffset": lambda header: header.last_offset,
    "sizeInBytes": lambda header: min(header.size, 2**31 - 1),
    "magic": lambda header: header.magic,
    "codec": lambda header: CODECS[header.codec],
    "timestampType": lambda header: int(header.timestamp_type),
    "baseTimestamp": lambda header: _microseconds(base_timestamp(header)),
    "maxTimestamp": lambda header: _microseconds(header.max_timestamp),
    "recordsCount": records_count,
    "leaderEpoch": lambda header: _known(header.leader_epoch),
    "producerId": lambda header: _known(header.producer_id),
    "producerEpoch": lambda header: _known(header.producer_epoch),
    "baseSequence": lambda header: _known(header.base_sequence),
    "isTransactional": lambda header: header.is_transactional,
    "isControl": lambda header: header.is_control,
    "crc": lambda header: header.crc,
}


def read_batches(split: Split, options: Options, schema: Any) -> Iterator[Any]:
    """Record batches of a split's batches, with the columns of an Arrow schema.

    FileNotFoundError: the segment is gone. CorruptSegmentError, where damage is to fail."""
    entries = Entries(split, options)
    table = _Table(entries, schema)
    try:
        while entries.position < entries.end:
            try:
                for header in entries.headers():
                    entries.verify(header)
                    if _is_wanted(header, entries):
                        table.headers.append(header)
                        if len(table.headers) == ROWS_MAX:
                            yield table.batch()
            except CorruptRecordsError as damage:
                if table.headers:
                    yield table.batch()
                found = entries.recover(damage, entries.position)
                if found is not None and options.mode is Mode.PERMISSIVE:
                    yield corrupt_row(schema, split, entries.path, found, options.corrupt_column)
        if table.headers:
            yield table.batch()
    finally:
        entries.close()


def _is_wanted(header: BatchHeader, entries: Entries) -> bool:
    split = entries.split
    if header.last_offset < split.first_offset or header.base_offset >= split.end_offset:
        return False
    return not entries.aborted.cover(header)


class _Table:
    """Headers that become a record batch."""

    def __init__(self, entries: Entries, schema: Any) -> None:
        self._schema = schema
        self._constants = {
            "topic": entries.split.topic,
            "partition": entries.split.partition,
            "segment": entries.path,
        }
        self.headers: list[BatchHeader] = []

    def batch(self) -> Any:
        arrays = [self._array(field) for field in self._schema]
        self.headers.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: Any) -> Any:
        if field.name in self._constants:
            return pa.repeat(pa.scalar(self._constants[field.name], field.type), len(self.headers))
        if field.name not in FIELDS:
            return pa.nulls(len(self.headers), field.type)
        values = list(map(FIELDS[field.name], self.headers))
        if field.type == TIMESTAMP:
            return pa.array(values, pa.int64()).cast(TIMESTAMP)
        return pa.array(values, field.type)


def _microseconds(milliseconds: int) -> int | None:
    if milliseconds == NO_TIMESTAMP or not -TIMESTAMP_MAX <= milliseconds <= TIMESTAMP_MAX:
        return None
    return milliseconds * MICROSECONDS


def _known(number: int) -> int | None:
    return None if number < 0 else number
