"""How a job's tasks get to Spark and their results back: one task a partition, results by Arrow.

Spark is given a row for each task, in as many partitions as there are tasks, so that each runs by
itself and a long one delays no other. A task's function runs in a Python worker of an executor,
which finds this package there (docs/spark.md says how it is shipped).

Not here: what the tasks do (audit.py, convert.py, sweep.py)."""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from records import RecordsError

from .errors import TaskFailedError
from .segment_files import PartitionLog
from .spark_errors import in_a_line, is_worker_lost
from .trees import find_partitions

Step: TypeAlias = Callable[[str, float, float], None]  # what is done, how far it is, of how much
Json: TypeAlias = dict[str, Any]
Task = TypeVar("Task")

POLL_SECONDS: Final = 0.2
ROWS_MAX: Final = 1000


class JobError(Exception):
    """A job that cannot be run as it was asked for; says why in one line."""


def no_step(_what: str, _done: float, _total: float) -> None:
    """For callers that do not show progress."""


def chosen(paths: Sequence[str], topics: Sequence[str]) -> list[PartitionLog]:
    """The partitions below the paths, of topics with these names or patterns (`orders-*`); all if
    there are none. JobError: there is nothing to do."""
    try:
        found = find_partitions(paths)
    except ValueError as error:  # a path that is none, or a key that is not given
        raise JobError(str(error)) from error
    if not found:
        raise JobError(
            f"{' '.join(paths)}: no partitions there; name a broker's log directory, a partition's "
            "(topic-0), or a directory above them"
        )
    if topics:
        named = [log for log in found if _is_named(log.topic_partition.topic, topics)]
        if not named:
            there = sorted({log.topic_partition.topic for log in found})
            raise JobError(f"no topic is called {' or '.join(topics)}; there is {', '.join(there)}")
        found = named
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
    rows = [(pickle.dumps(task),) for task in tasks]
    given = session.sparkContext.parallelize(rows, max(1, len(rows)))
    frame = session.createDataFrame(given, "task binary")
    return frame.mapInArrow(partial(_in_arrow, work, schema), from_arrow_schema(schema))


def _in_arrow(
    work: Callable[[Any], Iterable[Json]], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a Python worker does with a partition."""
    for batch in batches:
        for task in batch.column(0):
            for rows in _grouped(_worked(work, pickle.loads(task.as_py()))):
                yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _worked(work: Callable[[Any], Iterable[Json]], task: Any) -> Iterator[Json]:
    """The rows of a task. Of an error that does not say what it was about, the task is named."""
    try:
        yield from work(task)
    except OSError:  # names its file
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
def watched(session: SparkSession, what: str, total: int, step: Step) -> Iterator[None]:
    """Calls `step` with how many of `total` tasks are done, while jobs run in the block.

    JobError: one of them failed; says why in one line."""
    tracker = session.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(POLL_SECONDS):
            done = 0
            for job in set(tracker.getJobIdsForGroup()) - before:
                found = tracker.getJobInfo(job)
                for stage in map(tracker.getStageInfo, found.stageIds if found else ()):
                    if stage is not None and stage.numTasks == total:
                        done = max(done, stage.numCompletedTasks)
            step(what, done, total)

    step(what, 0, total)
    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    except (PySparkException, Py4JError) as error:
        line = in_a_line(error)
        again = "; run it again" if is_worker_lost(line) else ""
        raise JobError(f"{what}: {line}{again}") from error
    finally:
        ended.set()
        thread.join()
