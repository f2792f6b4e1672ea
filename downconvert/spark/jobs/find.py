"""Finds records by key: their file, position and offset, for example for deletion requests.

Keys are compared in Arrow while they are read. Values and batch positions are read only after a key
was found.

Not here: reading (rows.py), which files (planner.py)."""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from downconvert.spark.logs.opening import opened
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Mode, Options
from downconvert.spark.options.schemas import TIMESTAMP
from downconvert.spark.plan.bounds import EVERYTHING
from downconvert.spark.plan.gather import within_datetime
from downconvert.spark.plan.planner import plan
from downconvert.spark.read.rows import read_records
from downconvert.storage.segments.rising import fitting
from records import BatchHeader, CorruptRecordsError, Records
from records.formats import V2

from .jobs import JobError, Json, run_tasks, watched
from .progress import Step, no_step

RESULT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),  # null: Python's datetime does not reach that far
        ("key", pa.binary()),
        ("valueSize", pa.int64()),  # null: a tombstone
        ("segment", pa.string()),  # path of the log file
        ("position", pa.int64()),  # of the first byte of the batch; null: there is damage before it
        ("sizeInBytes", pa.int32()),  # of the batch
    ]
)
COLUMNS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
    ]
)
KEYS: Final = pa.schema([COLUMNS.field("key"), COLUMNS.field("offset")])


@dataclass(frozen=True, slots=True)
class Task:
    """Splits to search for keys."""

    splits: tuple[Split, ...]
    keys: frozenset[bytes]
    options: Options

    def __str__(self) -> str:
        return f"{self.splits[0].segment.directory}, segment {self.splits[0].segment.base_offset}"


def find(
    session: SparkSession,
    paths: Sequence[str],
    keys: Sequence[bytes],
    *,
    topics: Sequence[str] = (),
    skip_damaged: bool = False,
) -> DataFrame:
    """A row for each record with one of the keys: the columns of RESULT. Each Spark action searches
    again.

    JobError: there is nothing to search. Damage fails a task, unless it is skipped."""
    tasks = plan_of(paths, keys, topics=topics, skip_damaged=skip_damaged)
    return run_tasks(session, tasks, search, RESULT)


def run(frame: DataFrame, limit: int, step: Step = no_step) -> tuple[list[Json], bool]:
    """The rows of `find`, at most `limit`, by partition and offset; and whether there are no
    more."""
    with watched(frame.sparkSession, "find", step, skips=True):
        rows = [row.asDict() for row in frame.limit(limit + 1).collect()]
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["offset"]))
    return rows[:limit], len(rows) <= limit


def plan_of(
    paths: Sequence[str], keys: Sequence[bytes], *, topics: Sequence[str], skip_damaged: bool
) -> list[Task]:
    """The tasks of `find`. JobError: there is nothing to search, or a named topic does not
    exist."""
    mode = Mode.DROPMALFORMED if skip_damaged else Mode.FAILFAST
    options = Options(paths=tuple(paths), topics=tuple(topics), mode=mode)
    try:
        tasks = plan(options, EVERYTHING)
    except ValueError as error:
        raise JobError(str(error)) from error
    return [Task(splits, frozenset(keys), options) for splits in tasks]


def search(task: Task) -> Iterator[Json]:
    """The records of a task that have one of its keys, in the order of the log."""
    wanted = pa.array(sorted(task.keys), pa.binary())
    for split in task.splits:
        first = _first(split, task.options, wanted)
        if first is not None:
            rest = replace(split, first_offset=first)
            yield from _placed(split, _found(rest, task.options, wanted))


def _first(split: Split, options: Options, wanted: Any) -> int | None:
    """The lowest offset with one of the keys; None: there is none."""
    found = []
    for batch in read_records(split, options, EVERYTHING, KEYS):
        mask = pc.is_in(batch.column("key"), value_set=wanted)
        if mask.true_count:
            found.append(pc.min(batch.column("offset").filter(mask)).as_py())
    return min(found, default=None)


def _found(split: Split, options: Options, wanted: Any) -> Iterator[Json]:
    """The records of a split that have one of the keys, by offset."""
    for batch in read_records(split, options, EVERYTHING, COLUMNS):
        mask = pc.is_in(batch.column("key"), value_set=wanted)
        if mask.true_count:
            columns = [
                batch.column("offset"),
                within_datetime(batch.column("timestamp")),
                batch.column("key"),
                pc.binary_length(batch.column("value")).cast(pa.int64()),
            ]
            names = ["offset", "timestamp", "key", "valueSize"]
            yield from pa.RecordBatch.from_arrays(columns, names).filter(mask).to_pylist()


def _placed(split: Split, found: Iterator[Json]) -> Iterator[Json]:
    """Adds each row's batch: the first batch whose last offset is not below the row's offset. A
    record that was read from another copy has no batch."""
    with closing(opened(split)) as segment:
        path, start = split.segment.path, segment.start
        batches = _batches(segment.records.slice(start, segment.records.size - start))
        header = next(batches, None)
        for row in found:
            while header is not None and header.last_offset < row["offset"]:
                header = next(batches, None)
            batch = header
            if batch is not None and batch.magic == V2 and batch.base_offset > row["offset"]:
                batch = None
            yield {
                "topic": split.topic,
                "partition": split.partition,
                "segment": path,
                "position": None if batch is None else start + batch.position,
                "sizeInBytes": None if batch is None else batch.size,
                **row,
            }


def _batches(records: Records) -> Iterator[BatchHeader]:
    """The headers up to damage, without those that have a wrong offset."""
    with suppress(CorruptRecordsError):
        yield from fitting(records.batches(), -1)
