"""From the kernel's rows to Arrow's columns, without an object for each record.

A row has the positions of key, value and headers in a buffer (records/kernel.py). An array of
Arrow's has its bytes one after the other: the kernel gathers them into buffers of Arrow's.

Not here: filling the buffer (rows.py)."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from records.backend import gather_column, gather_headers
from records.kernel import ROW_FIELDS, Buffer

from .bounds import Bounds
from .schemas import TIMESTAMP
from .splits import Split

FIELDS: Final = len(ROW_FIELDS)
AT: Final = {name: index for index, name in enumerate(ROW_FIELDS)}
MICROSECONDS: Final = 1000  # in a millisecond

# Spark has timestamps in microseconds; those out of its range are null.
TIMESTAMP_MAX: Final = (2**63 - 1) // MICROSECONDS

ROWS_MAX: Final = 8192  # of a record batch

Columns = dict[str, Callable[[Any, Buffer], Any]]


class Gatherer:
    """Makes record batches from the rows of one partition."""

    def __init__(self, schema: Any, split: Split, bounds: Bounds) -> None:
        """`schema`: the columns wanted, of those that records have; others are null."""
        self._schema = schema
        self._first_offset = max(split.first_offset, bounds.offset_min)
        self._last_offset = min(split.end_offset - 1, bounds.offset_max)
        self._bounds = bounds
        self._topic = pa.repeat(pa.scalar(split.topic, pa.string()), ROWS_MAX)
        self._partition = pa.repeat(pa.scalar(split.partition, pa.int32()), ROWS_MAX)
        self._columns: Columns = {
            "key": lambda rows, source: gathered(rows, source, "key"),
            "value": lambda rows, source: gathered(rows, source, "value"),
            "topic": lambda rows, _: self._topic[: len(rows)],
            "partition": lambda rows, _: self._partition[: len(rows)],
            "offset": lambda rows, _: pa.array(rows[:, AT["offset"]].copy()),
            "timestamp": lambda rows, _: timestamps(rows[:, AT["timestamp"]]),
            "timestampType": lambda rows, _: pa.array(
                rows[:, AT["timestamp_type"]].astype(np.int32)
            ),
            "headers": headers,
        }

    def batch(self, rows: Buffer, source: Buffer) -> Any | None:
        """A record batch of at most `ROWS_MAX` rows. None: no row is wanted."""
        table = np.frombuffer(rows, np.int64).reshape(-1, FIELDS)
        table = self._wanted(table)
        if not len(table):
            return None
        arrays = [
            self._columns[field.name](table, source)
            if field.name in self._columns
            else pa.nulls(len(table), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _wanted(self, table: Any) -> Any:
        offsets = table[:, AT["offset"]]
        if offsets.min() < self._first_offset or offsets.max() > self._last_offset:
            table = table[(offsets >= self._first_offset) & (offsets <= self._last_offset)]
        if self._bounds.bound_times and len(table):
            times = table[:, AT["timestamp"]]
            low = -(-self._bounds.time_min // MICROSECONDS)
            high = self._bounds.time_max // MICROSECONDS
            table = table[(times >= low) & (times <= high)]
        return table


def gathered(rows: Any, source: Buffer, name: str) -> Any:
    """The keys or values that rows point to in the source."""
    count = len(rows)
    size = int(np.maximum(rows[:, AT[f"{name}_size"]], 0).sum())
    validity, ends = pa.allocate_buffer((count + 7) // 8), pa.allocate_buffer(4 * (count + 1))
    data = pa.allocate_buffer(size)
    _, nulls = gather_column(rows, 0, rows.nbytes, source, name == "value", ends, validity, data)
    buffers = [validity if nulls else None, ends, data]
    return pa.Array.from_buffers(pa.binary(), count, buffers, nulls)


def timestamps(milliseconds: Any) -> Any:
    """Timestamps as Spark has them. -1 (no timestamp) is a millisecond before 1970, as in Spark's
    Kafka source."""
    times = milliseconds.copy()  # one after the other, which what follows goes through faster
    if times.max() <= TIMESTAMP_MAX and times.min() >= -TIMESTAMP_MAX:
        times *= MICROSECONDS
        return pa.Array.from_buffers(TIMESTAMP, len(times), [None, pa.py_buffer(times)], 0)
    beyond = (times > TIMESTAMP_MAX) | (times < -TIMESTAMP_MAX)
    known = np.where(beyond, 0, times) * MICROSECONDS
    return pa.array(known, mask=beyond).cast(TIMESTAMP)


def headers(rows: Any, source: Buffer) -> Any:
    """The headers of records; null where there are none. Bytes in keys that are not UTF-8
    become U+FFFD, as in Kafka's consumer."""
    found = gather_headers(rows, 0, rows.nbytes, source)
    ends, key_ends, keys, value_ends, values, validity = map(pa.py_buffer, found)
    counts = rows[:, AT["headers_count"]]
    total = key_ends.size // 4 - 1
    pairs = pa.StructArray.from_arrays(
        [
            pa.Array.from_buffers(pa.string(), total, [None, key_ends, keys]),
            pa.Array.from_buffers(pa.binary(), total, [validity, value_ends, values]),
        ],
        fields=[pa.field("key", pa.string()), pa.field("value", pa.binary())],
    )
    return pa.Array.from_buffers(
        pa.list_(pa.field("element", pairs.type)),
        len(rows),
        [pa.array(counts > 0).buffers()[1], ends],
        children=[pairs],
    )
