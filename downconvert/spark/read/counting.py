"""Counts the records of a split, from the headers of its batches if possible.

Headers of v2 have the count, unless an offset or a time cuts a batch. Checksums are verified in any
case. A split with other batches or with damage is read as for a query.

Not here: reading records (rows.py), adding up (downconvert/spark)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Mode, Options
from downconvert.spark.plan.bounds import EVERYTHING
from records import BatchHeader, CorruptRecordsError
from records.formats import V2

from .entries import Entries
from .order import check_order
from .rows import read_records

OFFSET: Final = pa.schema([pa.field("offset", pa.int64())])
NOTHING: Final = memoryview(b"")


def read_counts(split: Split, options: Options, schema: Any) -> Iterator[Any]:
    """A record batch of one row: the split's topic, partition, and records. Filters may select only
    by the first two, so they do not change the number.

    FileNotFoundError: the segment is gone. CorruptSegmentError: there is damage, with FAILFAST."""
    if options.mode is Mode.PERMISSIVE:
        options = replace(options, mode=Mode.DROPMALFORMED)  # damage must add no row to the count
    count = None
    if not split.aborted:
        count = _from_headers(split, options)
    if count is None:
        count = sum(map(len, read_records(split, options, EVERYTHING, OFFSET)))
    found = {"topic": split.topic, "partition": split.partition, "records": count}
    yield pa.RecordBatch.from_pylist([found], schema=schema)


def _from_headers(split: Split, options: Options) -> int | None:
    """The number of records; None: headers do not have it."""
    entries = Entries(
        split, options, lambda other: read_records(other, options, EVERYTHING, OFFSET)
    )
    header: BatchHeader | None = None
    count, after = 0, split.segment.base_offset
    try:
        while entries.position < entries.end:
            header = entries.header(entries.position)
            if header is None or header.magic != V2 or header.records_count is None:
                return None
            first, last = header.base_offset, header.last_offset
            if not max(after, split.first_offset) <= first <= last < split.read_until:
                return None
            entries.verify(header, NOTHING)
            after = last + 1
            count += 0 if header.is_control else header.records_count
            entries.move_to(entries.position + header.size)
        if header is not None and options.verify_crc:
            check_order(entries, header)  # the next entry is another split's
            if entries.misplaced >= 0:
                return None
        return count + sum(map(len, entries.after_last(OFFSET)))
    except CorruptRecordsError:
        return None
    finally:
        entries.close()
