"""How a job's tasks get to Spark and their results back: one task a partition, results by Arrow.

Spark is given a row for each task, in as many partitions as there are tasks, so that each runs by
itself and a long one delays no other. A task's function runs in a Python worker of an executor,
which finds this package there (docs/spark.md says how it is shipped). Only DataFrames are used:
over Spark Connect there is nothing else.

Not here: what the tasks do (audit.py, convert.py, sweep.py), how far they are (progress.py)."""

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

from downconvert.storage.names import TopicPartition
from records import RecordsError

from .errors import (
    MODES,
    CorruptSegmentError,
    DataLossError,
    MissingOffsetsError,
    NotMountedError,
    SegmentChangedError,
    TaskFailedError,
)
from .progress import Step, polled
from .segment_files import PartitionLog
from .spark_errors import OF_SPARK, in_a_line, is_worker_lost
from .trees import find_partitions
from .workers import spare_what_is_loaded

Json: TypeAlias = dict[str, Any]
Task = TypeVar("Task")

TASKS: Final = pa.schema([("number", pa.int32()), ("task", pa.binary())])
ROWS_MAX: Final = 1000
SKIPS: Final = "; skip_damaged (--skip-damaged) leaves it out"
# They name the file themselves, which need not be the first one of a task.
SAY_WHERE: Final = (
    OSError,
    CorruptSegmentError,
    DataLossError,
    MissingOffsetsError,
    NotMountedError,
    SegmentChangedError,
)


class JobError(Exception):
    """A job that cannot be run as it was asked for; says why in one line."""


def chosen(paths: Sequence[str], topics: Sequence[str]) -> list[PartitionLog]:
    """The partitions below the paths, of topics with these names or patterns (`orders-*`); all if
    there are none. JobError: there is nothing to do."""
    there: set[str] = set()

    def takes(name: TopicPartition) -> bool:
        there.add(name.topic)
        return not topics or _is_named(name.topic, topics)

    try:
        found = find_partitions(paths, takes=takes)
    except ValueError as error:  # a path that is none, or a key that is not given
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
    """The rows that `work` yields for each task, with the columns of `schema`. Nothing has run yet,
    and each action on the result runs all of it."""
    rows = [list(range(len(tasks))), [pickle.dumps(task) for task in tasks]]
    frame = session.createDataFrame(pa.table(rows, schema=TASKS))
    return spread(frame, max(1, len(tasks))).mapInArrow(
        partial(_in_arrow, work, schema), from_arrow_schema(schema)
    )


def spread(frame: DataFrame, count: int) -> DataFrame:
    """A frame of TASKS in `count` partitions: one for each row, or by the hash of its number before
    Spark 4.1, where some have two rows and others none."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(count, "number")
    return frame.repartition(count, "number")


def _in_arrow(
    work: Callable[[Any], Iterable[Json]], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a Python worker does with a partition."""
    spare_what_is_loaded()
    for batch in batches:
        for task in batch.column("task"):
            for rows in _grouped(_worked(work, pickle.loads(task.as_py()))):
                yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _worked(work: Callable[[Any], Iterable[Json]], task: Any) -> Iterator[Json]:
    """The rows of a task. Of an error that does not say what it was about, the task is named."""
    try:
        yield from work(task)
    except SAY_WHERE:
        raise
    except RecordsError as error:
        raise TaskFailedError(f"{task}: {error}") from error
    except Exception as error:
        raise TaskFailedError(f"{task}: {type(error).__name__}: {error}") from error


def _grouped(rows: Iterable[Json]) -> Iterator[list[Json]]:
    """Rows in groups for an Arrow batch each."""
    left = iter(rows)
    while group := list(islice(left, ROWS_MAX)):
        yield group


@contextmanager
def watched(session: SparkSession, what: str, step: Step, *, skips: bool = False) -> Iterator[None]:
    """Calls `step` with how many tasks are done, and of how many, while jobs run in the block.

    `skips`: the job has an option that leaves damage out. JobError: one of them failed; says why
    in one line."""
    try:
        with polled(session, what, step):
            yield
    except OF_SPARK as error:
        line = in_a_line(error).replace(MODES, SKIPS if skips else "")
        again = "; run it again" if is_worker_lost(line) else ""
        raise JobError(f"{what}: {line}{again}") from error
