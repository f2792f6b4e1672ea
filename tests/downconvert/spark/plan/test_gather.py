"""Columns from rows: nulls, headers, timestamps that Spark does not have, buffers used again."""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from downconvert.spark.plan.bounds import Bounds
from downconvert.spark.read.reader import Task
from downconvert.spark.read.rows import read_records
from records import Codec, Record, TimestampType, build
from records.formats import V2
from tests.downconvert.spark.reading import parsed, partition, reader, rows

MOST: Final = (2**63 - 1) // 1000  # milliseconds
OFFSETS: Final = pa.schema([pa.field("offset", pa.int64())])


def test_null_is_not_empty(tmp_path: Path) -> None:
    pairs = [(None, b""), (b"", None), (None, None), (b"k", b"v"), (b"", b"")]
    records = [Record(i, 0, key=key, value=value) for i, (key, value) in enumerate(pairs)]
    partition(tmp_path, build(records, magic=V2))
    assert [(row["key"], row["value"]) for row in rows(tmp_path)] == pairs


def test_headers_are_those_of_kafkas_consumer(tmp_path: Path) -> None:
    """Keys of bytes that are no text have replacement characters, and no headers are null."""
    headers = (("k", b"1"), ("k", None), ("", b""), ("\N{SNOWMAN}\udcff", b"x"))
    records = [Record(0, 0), Record(1, 0, headers=headers), Record(2, 0, headers=(("z", b"9"),))]
    partition(tmp_path, build(records, magic=V2))
    found = [row["headers"] for row in rows(tmp_path, includeHeaders=True)]
    assert found == [
        None,
        [
            {"key": "k", "value": b"1"},
            {"key": "k", "value": None},
            {"key": "", "value": b""},
            {"key": "\N{SNOWMAN}\ufffd", "value": b"x"},
        ],
        [{"key": "z", "value": b"9"}],
    ]


@pytest.mark.parametrize("beyond", [2**63 - 1, 2**62, MOST + 1, -MOST - 1, -(2**62), -(2**63)])
def test_timestamps_that_spark_does_not_have_are_null(tmp_path: Path, beyond: int) -> None:
    times = [0, -1, 1_700_000_000_001, beyond, MOST, -MOST]
    batches = (build([Record(i, time)], magic=V2) for i, time in enumerate(times))
    partition(tmp_path, b"".join(batches))
    found = [row["timestamp"] for row in rows(tmp_path)]
    assert found == [None if time == beyond else 1000 * time for time in times]


def test_a_record_batch_stays_as_it_is_when_the_next_one_comes(tmp_path: Path) -> None:
    """Spark may hold it a while; the buffers that it was made from are filled again."""
    sizes = (10, 700_000, 700_000, 20, 900_000, 900_000)
    records = [Record(i, i, TimestampType.CREATE, b"k", b"%d" % i * n) for i, n in enumerate(sizes)]
    partition(tmp_path, build(records, magic=V2))
    source = reader(tmp_path)
    batches = [found for task in source.partitions() for found in source.read(task)]
    assert len(batches) > 3
    found = [row for held in batches for row in held.to_pylist()]
    assert [(r["offset"], r["value"]) for r in found] == [(r.offset, r.value) for r in records]
    assert [r["timestamp"].microsecond for r in found] == [1000 * r.timestamp for r in records]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_bounds_between_two_milliseconds_leave_out_what_is_outside_of_them(
    tmp_path: Path, codec: Codec
) -> None:
    """Spark's timestamps are in microseconds, and may be of before 1970."""
    times = range(-4, 5)
    records = [Record(at, time) for at, time in enumerate(times)]
    partition(tmp_path, build(records, magic=V2, codec=codec))
    source = reader(tmp_path)
    (task,) = source.partitions()
    assert isinstance(task, Task)
    (split,) = task.splits
    bounds = [1000 * at + more for at in (-3, -1, 0, 2) for more in (-1, 0, 1, 500, 999)]
    for low in bounds:
        for high in bounds:
            found = [
                offset
                for one in read_records(
                    split, parsed(tmp_path), Bounds(time_min=low, time_max=high), OFFSETS
                )
                for offset in one.column(0).to_pylist()
            ]
            assert found == [at for at, time in enumerate(times) if low <= 1000 * time <= high]
