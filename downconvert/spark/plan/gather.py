"""Records of one partition as Spark's record batches, without an object for each record.

The kernel fills columns in Arrow's format (records/kernel_functions.py, ArrowColumns). Here they
become arrays, without a copy, with the columns that all records of a partition share.

Not here: reading entries (rows.py), unusual ones (steps.py)."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from downconvert.spark.logs.splits import Split
from downconvert.spark.options.schemas import TIMESTAMP
from records.backend import ArrowColumns
from records.kernel import ROW_FIELDS, Buffer
from records.kernel_functions import Binary, HeaderLists

from .bounds import INT64_MAX, INT64_MIN, Bounds

FIELDS: Final = len(ROW_FIELDS)
AT: Final = {name: index for index, name in enumerate(ROW_FIELDS)}
MICROSECONDS: Final = 1000  # in a millisecond

# Spark's timestamps are in microseconds. Those out of its range are null.
TIMESTAMP_MAX: Final = (2**63 - 1) // MICROSECONDS
# Python's datetime ends with the year 9999. A day is left for time zones.
DATETIME_MAX: Final = 253_402_214_400_000  # milliseconds
DATETIME_MIN: Final = -62_135_510_400_000

# Limits of a record batch: large enough to outweigh the cost of passing it on, and small enough for
# the processor's cache.
ROWS_MAX: Final = 8192
BYTES_MAX: Final = 1024 * 1024  # one record may be larger

HEADER: Final = (pa.field("key", pa.string()), pa.field("value", pa.binary()))
HEADERS: Final = pa.list_(pa.field("element", pa.struct(HEADER)))


class Gatherer:
    """Makes record batches from the records of one partition."""

    def __init__(self, schema: Any, split: Split, bounds: Bounds) -> None:
        """`schema`: the wanted columns. Those that records do not have are null."""
        self._schema = schema
        names = set(schema.names)
        times = (INT64_MIN, INT64_MAX)
        if bounds.bound_times:
            low = -(-bounds.time_min // MICROSECONDS)
            times = max(low, INT64_MIN), min(bounds.time_max // MICROSECONDS, INT64_MAX)
        offsets = (
            max(split.first_offset, bounds.offset_min, INT64_MIN),
            min(split.read_until - 1, bounds.offset_max, INT64_MAX),
        )
        keys, values, lists = (name in names for name in ("key", "value", "headers"))
        self.columns = ArrowColumns(ROWS_MAX, BYTES_MAX, keys, values, lists, offsets, times)
        self._topic = pa.repeat(pa.scalar(split.topic, pa.string()), ROWS_MAX)
        self._partition = pa.repeat(pa.scalar(split.partition, pa.int32()), ROWS_MAX)

    def add(self, rows: Buffer, source: Buffer) -> Iterator[Any]:
        """Adds rows; yields record batches as they fill up."""
        start, end = 0, len(memoryview(rows).cast("B"))
        while True:
            start += self.columns.add_rows(rows, start, end, source)
            if start == end:
                return
            yield from self.remaining_batches()

    def remaining_batches(self) -> Iterator[Any]:
        """The remaining records, as a record batch."""
        if not len(self.columns):
            return
        count, offsets, times, kinds, keys, values, lists = self.columns.take()
        made = {
            "topic": self._topic[:count],
            "partition": self._partition[:count],
            "offset": pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)], 0),
            "timestamp": timestamps(times),
            "timestampType": pa.Array.from_buffers(
                pa.int32(), count, [None, pa.py_buffer(kinds)], 0
            ),
        }
        if keys is not None:
            made["key"] = binary(keys, count)
        if values is not None:
            made["value"] = binary(values, count)
        if lists is not None:
            made["headers"] = headers(lists, count)
        arrays = [
            made[field.name] if field.name in made else pa.nulls(count, field.type)
            for field in self._schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def binary(column: Binary, count: int, kind: Any = HEADER[1].type) -> Any:
    """Keys or values, of records or of headers."""
    nulls, validity, ends, data = column
    buffers = [_buffer(validity), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, count, buffers, nulls)


def timestamps(milliseconds: Buffer) -> Any:
    """Timestamps for Spark. -1 (no timestamp) is a millisecond before 1970, as in Spark's Kafka
    source."""
    times = np.frombuffer(milliseconds, np.int64)
    if times.max() <= TIMESTAMP_MAX and times.min() >= -TIMESTAMP_MAX:
        known = pa.py_buffer(times * MICROSECONDS)
        return pa.Array.from_buffers(TIMESTAMP, len(times), [None, known], 0)
    beyond = (times > TIMESTAMP_MAX) | (times < -TIMESTAMP_MAX)
    known = np.where(beyond, 0, times) * MICROSECONDS
    return pa.array(known, mask=beyond).cast(TIMESTAMP)


def within_datetime(times: Any) -> Any:
    """Timestamps that become Python's; the others are null."""
    numbers = times.cast(pa.int64())
    first, last = DATETIME_MIN * MICROSECONDS, DATETIME_MAX * MICROSECONDS
    known = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(known, times, pa.scalar(None, TIMESTAMP))


def headers(column: HeaderLists, count: int) -> Any:
    """The headers of records; null if a record has none."""
    present, validity, ends, keys, values = column
    if not present:
        return pa.nulls(count, HEADERS)
    total = memoryview(keys[2]).nbytes // 4 - 1
    pairs = pa.StructArray.from_arrays(
        [binary(keys, total, HEADER[0].type), binary(values, total)], fields=HEADER
    )
    buffers = [_buffer(validity), pa.py_buffer(ends)]
    return pa.Array.from_buffers(HEADERS, count, buffers, count - present, children=[pairs])


def _buffer(bits: Buffer | None) -> Any:
    return None if bits is None else pa.py_buffer(bits)
