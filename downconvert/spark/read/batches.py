"""The batches of a split, a row for each. Only headers are read.

Not here: the columns' types (schemas.py), collecting headers (heads.py), positions of entries and
reading on after damage (entries.py)."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import numpy as np
import pyarrow as pa

from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Options
from downconvert.spark.options.schemas import TIMESTAMP
from downconvert.spark.plan.gather import MICROSECONDS, ROWS_MAX, TIMESTAMP_MAX
from downconvert.storage.segments.rising import NOT_RISING
from records import Codec, CorruptRecordsError
from records.files.source import WINDOW_SIZE
from records.formats import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    V0,
)

from .entries import Entries
from .heads import Heads, HeadTable
from .order import check_order, look_at_first

CODECS: Final = np.array([codec.name.lower() for codec in Codec], object)


def read_batches(split: Split, options: Options, schema: Any) -> Iterator[Any]:
    """Record batches of a split's batches, with the columns of an Arrow schema.

    FileNotFoundError: the segment is gone. CorruptSegmentError: there is damage, with FAILFAST."""
    opened = Entries(split, options, lambda other: read_batches(other, options, schema))
    heads, window = Heads(ROWS_MAX), memoryview(bytearray(WINDOW_SIZE))
    with closing(opened) as entries:
        if options.verify_crc:
            look_at_first(entries)
        while entries.position < entries.end:
            damage: CorruptRecordsError | None = None
            try:
                entries.check_place()
                heads.collect(entries, window)
            except CorruptRecordsError as error:
                damage = error
            if options.verify_crc:
                damage = _misplaced(heads, entries) or damage
            yield from _batch(heads, entries, schema)
            heads.clear()
            if damage is not None:
                yield from entries.recover(damage, schema)
        yield from entries.after_last(schema)


def _misplaced(heads: Heads, entries: Entries) -> CorruptRecordsError | None:
    """Looks for a header with a wrong offset, which does not fit between its neighbours' offsets.
    Removes it and all later headers, and moves `entries.position` there. None: all fit."""
    if not len(heads):
        return None
    table, last = heads.table(), len(heads) - 1
    falling = np.flatnonzero(table.base_offset[1:] <= table.last_offset[:-1])
    for number in (*falling.tolist(), last):
        position = heads.positions[number]
        header = entries.header(position)
        assert header is not None
        try:
            check_order(entries, header)
        except CorruptRecordsError as error:
            heads.keep(number)
            entries.position = position
            return error
        if position < entries.misplaced:
            heads.keep(number + 1)
            entries.position = entries.misplaced
            return CorruptRecordsError(NOT_RISING, entries.misplaced)
    return None


def _batch(heads: Heads, entries: Entries, schema: Any) -> Iterator[Any]:
    if not len(heads):
        return
    split, table = entries.split, heads.table()
    wanted = (table.last_offset >= split.first_offset) & (table.base_offset < split.read_until)
    constants = {"topic": split.topic, "partition": split.partition, "segment": entries.path}
    arrays = []
    for field in schema:
        if field.name in constants:
            scalar = pa.scalar(constants[field.name], field.type)
            arrays.append(pa.repeat(scalar, len(heads)))
        elif field.name in COLUMNS:
            column = COLUMNS[field.name](table)
            arrays.append(column if column.type == field.type else column.cast(field.type))
        else:
            arrays.append(pa.nulls(len(heads), field.type))
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if not wanted.all():
        batch = batch.filter(pa.array(wanted))
    if batch.num_rows:
        yield batch


def _known(numbers: Any) -> Any:
    """Replaces negative values by null."""
    return pa.array(numbers, mask=numbers < 0)


def _records_count(table: HeadTable) -> Any:
    """The number of records in each batch; null for compressed v0 and v1 messages, which do not
    state it."""
    counts = table.of_batch("records_count", 1)
    return pa.array(counts, mask=~table.is_batch & (table.codec != Codec.NONE))


def _timestamp_type(table: HeadTable) -> Any:
    is_append = (table.attributes & LOG_APPEND_TIME) != 0
    return pa.array(np.where(table.magic == V0, -1, is_append.astype(np.int64)))


def _flag(table: HeadTable, bit: int) -> Any:
    return table.is_batch & ((table.attributes & bit) != 0)


def _time(milliseconds: Any, unknown: Any = False) -> Any:
    without = (milliseconds == NO_TIMESTAMP) | (np.abs(milliseconds) > TIMESTAMP_MAX) | unknown
    without |= milliseconds == np.iinfo(np.int64).min  # its absolute value overflows
    known = np.where(without, 0, milliseconds) * MICROSECONDS
    return pa.array(known, mask=without).cast(TIMESTAMP)


COLUMNS: Final[dict[str, Callable[[HeadTable], Any]]] = {
    "position": lambda table: pa.array(table.position),
    "baseOffset": lambda table: pa.array(table.base_offset),
    "lastOffset": lambda table: pa.array(table.last_offset),
    "sizeInBytes": lambda table: pa.array(table.size),
    "magic": lambda table: pa.array(table.magic),
    "codec": lambda table: pa.array(CODECS[table.codec], pa.string()),
    "timestampType": _timestamp_type,
    "baseTimestamp": lambda table: _time(table.base_timestamp, _flag(table, DELETE_HORIZON)),
    "maxTimestamp": lambda table: _time(table.max_timestamp),
    "recordsCount": _records_count,
    "leaderEpoch": lambda table: _known(table.of_batch("leader_epoch", -1)),
    "producerId": lambda table: _known(table.of_batch("producer_id", -1)),
    "producerEpoch": lambda table: _known(table.of_batch("producer_epoch", -1)),
    "baseSequence": lambda table: _known(table.of_batch("base_sequence", -1)),
    "isTransactional": lambda table: pa.array(_flag(table, TRANSACTIONAL)),
    "isControl": lambda table: pa.array(_flag(table, CONTROL)),
    "crc": lambda table: pa.array(table.crc),
}
