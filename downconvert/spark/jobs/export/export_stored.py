"""Records as Parquet in an object store, or in a table's folder, in the layout of export.py.

A task first writes its Parquet files on this machine. It then uploads each as one object,
atomically, under a name that is the same in each attempt. After all tasks have ended, a note makes
them valid (export_stored_notes.py), or the commit of a table.

Not here: which offsets are new (export_plan.py), tables (export_delta.py, export_iceberg.py)."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from downconvert.spark.jobs.jobs import Json, run_tasks, watched
from downconvert.spark.jobs.progress import Step
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.splits import Split
from downconvert.spark.options.options import Mode, Options
from downconvert.spark.options.schemas import arrow_schema, schema_of
from downconvert.spark.plan.bounds import EVERYTHING
from downconvert.spark.plan.planner import plan_logs
from downconvert.spark.read.rows import read_records
from downconvert.spark.stores.stores import below, is_stored, read, write
from downconvert.storage.names import TopicPartition

from .export_columns import COLUMNS, DAYS, Column, column_of
from .export_manifest import Range
from .export_unnoted import Runs, without_held

RESULT: Final = pa.schema(
    [
        ("file", pa.string()),  # null: the row has unreadable offsets
        ("records", pa.int64()),
        ("size", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),  # of the unreadable offsets
        ("end", pa.int64()),
        ("columns", pa.string()),  # of a file: JSON of Written's
    ]
)
ROWS: Final = re.compile(r"topic=([^/]+)/date=([^/]+)/part-([0-9a-f]{32})-[0-9]{6}\.parquet")
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
HELD_MAX: Final = 32 * 1024 * 1024  # bytes of records in memory, before they are written
NO_TIMESTAMP_TYPE: Final = -1
NOTHING: Final[Json] = dict.fromkeys(RESULT.names)

Lost: TypeAlias = dict[TopicPartition, list[Range]]


class Written(NamedTuple):
    """A file, by its name below the target; `size` in bytes; `columns`: those of COLUMNS."""

    file: str
    records: int
    size: int
    columns: Mapping[str, Column]

    @property
    def topic(self) -> str:
        return self._folders()[0]

    @property
    def day(self) -> date | None:
        """In UTC; None: the records have no timestamps."""
        day = self._folders()[1]
        return None if day == NO_DATE else date.fromisoformat(day)

    def _folders(self) -> tuple[str, str]:
        found = ROWS.fullmatch(self.file)
        assert found is not None
        return found[1], found[2]


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one task: splits, and the target of their records."""

    splits: tuple[Split, ...]
    options: Options
    target: str
    run_id: str
    number: int
    held: Mapping[TopicPartition, Runs]  # offsets that are left out
    is_complete: bool = False  # whether files also have the columns `topic` and `date`

    def __str__(self) -> str:
        return f"{self.splits[0].segment.directory}, segment {self.splits[0].segment.base_offset}"


def write_records(
    session: SparkSession,
    logs: Sequence[PartitionLog],
    options: Options,
    target: str,
    step: Step,
    *,
    run_id: str,
    held: Mapping[TopicPartition, Runs],
    is_complete: bool = False,
) -> tuple[list[Written], Lost]:
    """Writes the records that the options select. Returns the files, which have no note yet, and
    the unreadable offsets, if the options tolerate them.

    `target`: a URI, or a directory that all executors have. `run_id`: a part of the files' names.
    `held`: offsets that are left out. `is_complete`: files also have the columns `topic` and
    `date`."""
    tasks = [
        Task(splits, options, target, run_id, number, _of(splits, held), is_complete)
        for number, splits in enumerate(plan_logs(logs, options, EVERYTHING))
    ]
    if not tasks:
        return [], {}
    frame = run_tasks(session, tasks, write_task, RESULT)
    with watched(session, "export", step, skips=True):
        rows = frame.collect()
    # Two attempts of one task use the same names.
    found = {row.file: _written(row) for row in rows if row.file}
    lost: Lost = {}
    for row in rows:
        if row.file is None:
            name = TopicPartition(row.topic, row.partition)
            lost.setdefault(name, []).append((row.start, row.end))
    return sorted(found.values()), lost


def _of(
    splits: Sequence[Split], held: Mapping[TopicPartition, Runs]
) -> Mapping[TopicPartition, Runs]:
    names = {TopicPartition(one.topic, one.partition) for one in splits}
    return {name: held[name] for name in names & held.keys()}


def _written(row: Any) -> Written:
    columns = {name: Column(*values) for name, values in json.loads(row.columns).items()}
    return Written(row.file, row.records, row.size, columns)


def write_task(task: Task) -> Iterator[Json]:
    """Writes the files of a task: first on this machine, then to the target."""
    schema = arrow_schema(schema_of(task.options))
    with tempfile.TemporaryDirectory(prefix="kafka-segments-") as scratch:
        files = _Files(Path(scratch), task.is_complete)
        try:
            for split in task.splits:
                held = task.held.get(TopicPartition(split.topic, split.partition))
                for batch in read_records(split, task.options, EVERYTHING, schema):
                    if task.options.mode is Mode.PERMISSIVE:
                        report = batch.column(task.options.corrupt_column)
                        if report.null_count < len(batch):
                            yield _lost(split, report[0].as_py())
                            continue
                        batch = batch.drop_columns([task.options.corrupt_column])
                    files.add(split.topic, without_held(batch, held))
        finally:
            files.close()
        for (topic, day), (path, count) in sorted(files.written.items()):
            name = f"part-{task.run_id}-{task.number:06d}.parquet"
            folders = (f"topic={topic}", f"date={day}")
            columns = {column: column_of(path, column) for column in COLUMNS}
            if is_stored(task.target):
                write(below(task.target, *folders, name), path)
            else:
                place(Path(task.target, *folders, name), path)
            yield NOTHING | {
                "file": "/".join((*folders, name)),
                "records": count,
                "size": path.stat().st_size,
                "columns": json.dumps(columns),
            }


def _lost(split: Split, report: Json) -> Json:
    """The unreadable offsets of a split; all offsets of its segment if they are not known."""
    file = split.segment
    start, end = report["startOffset"], report["endOffset"]
    start = max(split.first_offset, file.base_offset) if start is None else start
    end = min(split.end_offset, file.next_offset) if end is None else end
    return NOTHING | {
        "topic": split.topic,
        "partition": split.partition,
        "start": start,
        "end": end,
    }


def place(target: Path, source: Path) -> None:
    """Copies a file atomically; returns when it is on disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        shutil.copyfile(source, temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(slots=True)
class _Files:
    """The Parquet files of a task, one for each topic and day."""

    directory: Path
    is_complete: bool
    written: dict[tuple[str, str], tuple[Path, int]] = field(default_factory=dict)
    _writers: dict[tuple[str, str], Any] = field(default_factory=dict)
    _held: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    _size: int = 0

    def add(self, topic: str, batch: Any) -> None:
        """Adds the records of a batch. At most HELD_MAX bytes stay in memory."""
        days = batch.column("timestamp").cast(pa.date32())
        has_none = pc.equal(batch.column("timestampType"), NO_TIMESTAMP_TYPE)
        number = days.cast(pa.int32())  # Python's dates do not reach all years of timestamps
        beyond = pc.or_(pc.less(number, DAYS[0]), pc.greater(number, DAYS[1]))
        has_none = pc.or_kleene(has_none, beyond)
        days = pc.if_else(has_none, pa.scalar(None, pa.date32()), days)
        if self.is_complete:
            batch = batch.append_column(pa.field("date", pa.date32()), days)
        else:
            batch = batch.drop_columns(["topic"])
        for day in pc.unique(days).to_pylist():
            of_day = pc.is_null(days) if day is None else pc.equal(days, pa.scalar(day))
            key = topic, NO_DATE if day is None else str(day)
            self._held.setdefault(key, []).append(batch.filter(of_day))
        self._size += batch.nbytes
        if self._size > HELD_MAX:
            self.flush()

    def flush(self) -> None:
        for key, batches in self._held.items():
            if key not in self._writers:
                path = self.directory / f"{len(self._writers)}.parquet"
                self._writers[key] = pq.ParquetWriter(path, batches[0].schema)
                self.written[key] = path, 0
            self._writers[key].write_table(pa.Table.from_batches(batches))
            path, count = self.written[key]
            self.written[key] = path, count + sum(map(len, batches))
        self._held.clear()
        self._size = 0

    def close(self) -> None:
        self.flush()
        for writer in self._writers.values():
            writer.close()


def archive(session: SparkSession, target: str, files: Iterable[str]) -> DataFrame:
    """The records in files that have notes. Tasks read them, not Hadoop."""
    options = Options(paths=(target,), include_headers=True)
    schema = arrow_schema(schema_of(options)).append(pa.field("date", pa.date32()))
    rows = [(name,) for name in sorted(files)]
    frame = session.createDataFrame(rows, "file string")
    if rows:
        frame = frame.repartition(min(len(rows), 1000))
    return frame.mapInArrow(partial(_read, target, schema), from_arrow_schema(schema))


def _read(target: str, schema: Any, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        for name in batch.column(0).to_pylist():
            with tempfile.NamedTemporaryFile(prefix="kafka-segments-") as file:
                Path(file.name).write_bytes(read(below(target, *name.split("/"))))
                yield from _rows(file.name, name, schema)


def _rows(path: str, name: str, schema: Any) -> Iterator[Any]:
    found = ROWS.fullmatch(name)
    assert found is not None
    day = None if found[2] == NO_DATE else date.fromisoformat(found[2])
    values: Mapping[str, Any] = {"topic": found[1], "date": day}
    for batch in pq.ParquetFile(path).iter_batches():
        arrays = [
            pa.repeat(pa.scalar(values[column.name], column.type), len(batch))
            if column.name in values
            else batch.column(column.name).cast(column.type)
            for column in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
