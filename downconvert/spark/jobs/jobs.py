"""Runs a job's tasks on Spark: one task per partition, with results as Arrow.

Spark gets a row for each task, in as many partitions as there are tasks. So each task runs by
itself, and a long one delays no other. A task's function runs in a Python worker of an executor,
which must have this package (docs/spark.md says how it is shipped). Only DataFrames are used, as
Spark Connect has nothing else.

Not here: the tasks (audit.py, convert.py, sweep.py), their progress (progress.py)."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from downconvert.spark.errors import (
    MODES,
    CorruptSegmentError,
    DataLossError,
    MissingOffsetsError,
    NotMountedError,
    SegmentChangedError,
    TaskFailedError,
)
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.trees import find_partitions
from downconvert.spark.notices import forward
from downconvert.spark.read.workers import spare_what_is_loaded
from downconvert.spark.stores.attempts import attempted
from downconvert.storage.names import TopicPartition
from records import RecordsError

from .progress import Step, polled
from .spark_errors import OF_SPARK, in_a_line, is_worker_lost

Json: TypeAlias = dict[str, Any]
Task = TypeVar("Task")

TASKS: Final = pa.schema([("number", pa.int32()), ("task", pa.binary())])
ROWS_MAX: Final = 1000
SKIPS: Final = "; skip_damaged (--skip-damaged) leaves it out"
# The texts of these errors name a file, which may be any file of the task.
SAY_WHERE: Final = (
    OSError,
    CorruptSegmentError,
    DataLossError,
    MissingOffsetsError,
    NotMountedError,
    SegmentChangedError,
)


class JobError(Exception):
    """A job that cannot run as requested. The text has the reason in one line."""


def chosen(
    paths: Sequence[str], topics: Sequence[str], compacted: Sequence[str] = ()
) -> list[PartitionLog]:
    """The partitions below the paths, of topics with these names or patterns (`orders-*`). Without
    names, these are all partitions. `compacted`: topics that are known to be compacted. JobError:
    there are none."""
    there: set[str] = set()

    def takes(name: TopicPartition) -> bool:
        there.add(name.topic)
        return not topics or _is_named(name.topic, topics)

    def search(_: bool) -> list[PartitionLog]:
        there.clear()
        return find_partitions(
            paths, takes=takes, is_compacted=lambda topic: _is_named(topic, compacted)
        )

    try:
        found = attempted(search)
    except ValueError as error:  # an invalid path, or a missing key
        raise JobError(str(error)) from error
    if not there:
        raise JobError(
            f"{' '.join(paths)}: no partitions there; name a broker's log directory, a partition's "
            "(topic-0), or a directory above them"
        )
    if not found:
        names = ", ".join(sorted(there))
        raise JobError(f"no topic is called {' or '.join(topics)}; there is {names}")
    return found


def _is_named(topic: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


def run_tasks(
    session: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task], Iterable[Json]],
    schema: pa.Schema,
) -> DataFrame:
    """The rows that `work` yields for each task, with the columns of `schema`. This is lazy: each
    action on the result runs all tasks."""
    rows = [list(range(len(tasks))), [pickle.dumps(task) for task in tasks]]
    frame = session.createDataFrame(pa.table(rows, schema=TASKS))
    return spread(frame, max(1, len(tasks))).mapInArrow(
        partial(_in_arrow, work, schema), from_arrow_schema(schema)
    )


def spread(frame: DataFrame, count: int) -> DataFrame:
    """A frame of TASKS in `count` partitions, one for each row. Before Spark 4.1 rows are
    distributed by the hash of their number, so some partitions have two rows and others none."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(count, "number")
    return frame.repartition(count, "number")


def _in_arrow(
    work: Callable[[Any], Iterable[Json]], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The work of a Python worker for a partition."""
    spare_what_is_loaded()
    forward()
    for batch in batches:
        for task in batch.column("task"):
            for rows in _grouped(_worked(work, pickle.loads(task.as_py()))):
                yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _worked(work: Callable[[Any], Iterable[Json]], task: Any) -> Iterator[Json]:
    """The rows of a task. Adds the task's name to errors that name no file."""
    try:
        yield from work(task)
    except SAY_WHERE:
        raise
    except RecordsError as error:
        raise TaskFailedError(f"{task}: {error}") from error
    except Exception as error:
        raise TaskFailedError(f"{task}: {type(error).__name__}: {error}") from error


def _grouped(rows: Iterable[Json]) -> Iterator[list[Json]]:
    """Groups rows, each group for one Arrow batch."""
    left = iter(rows)
    while group := list(islice(left, ROWS_MAX)):
        yield group


@contextmanager
def watched(session: SparkSession, what: str, step: Step, *, skips: bool = False) -> Iterator[None]:
    """Calls `step` with the number of finished tasks, and of all tasks, while jobs run in the
    block.

    `skips`: the job has an option to skip damage. JobError: a job failed. Its text has the reason
    in one line."""
    try:
        with polled(session, what, step):
            yield
    except OF_SPARK as error:
        line = in_a_line(error).replace(MODES, SKIPS if skips else "")
        again = "; run it again" if is_worker_lost(line) else ""
        raise JobError(f"{what}: {line}{again}") from error
