"""Tasks of a job: which logs they are for, what they yield, and what is said where one fails.

A frame of this process takes the place of Spark's: what Spark does with it is tested with the
jobs."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from downconvert.spark.errors import (
    MODES,
    CorruptSegmentError,
    DataLossError,
    MissingOffsetsError,
    MixedClustersError,
    NotMountedError,
    SegmentChangedError,
    TaskFailedError,
)
from downconvert.spark.jobs import jobs
from downconvert.spark.jobs.jobs import ROWS_MAX, SKIPS, JobError, chosen, run_tasks, watched
from downconvert.spark.jobs.progress import no_step
from downconvert.spark.jobs.spark_errors import WORKER_LOST
from downconvert.spark.logs.segment_files import PartitionLog
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage.names import TopicPartition
from records import CorruptRecordsError
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

SCHEMA: Final = pa.schema([("n", pa.int64()), ("text", pa.string())])


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in ("orders-0", "orders-1", "orders.eu-0", "Orders-0", "audit-0"):
        partition(tmp_path, batch(0), name)
    return tmp_path


def names(path: Path, *topics: str) -> list[str]:
    return sorted(str(log.topic_partition) for log in chosen([str(path)], topics))


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ((), ["Orders-0", "audit-0", "orders-0", "orders-1", "orders.eu-0"]),
        (("orders",), ["orders-0", "orders-1"]),
        (("orders*",), ["orders-0", "orders-1", "orders.eu-0"]),
        (("*eu", "audit"), ["audit-0", "orders.eu-0"]),
        (("?rders",), ["Orders-0", "orders-0", "orders-1"]),
        (("[Oa]*", "nothing"), ["Orders-0", "audit-0"]),
    ],
)
def test_topics_are_chosen_by_name_or_pattern(
    logs: Path, topics: tuple[str, ...], expected: list[str]
) -> None:
    assert names(logs, *topics) == expected


def test_a_topic_that_is_not_there_is_an_error_that_says_which_are(logs: Path) -> None:
    words = "^no topic is called orde or x; there is Orders, audit, orders, orders.eu$"
    with pytest.raises(JobError, match=words.replace(".", r"\.")):
        names(logs, "orde", "x")


def test_only_the_last_search_names_the_existing_topics(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search starts over if a file is gone, and its topic may be gone with it."""

    def search(
        paths: list[str],
        *,
        takes: Callable[[TopicPartition], bool],
        is_compacted: Callable[[str], bool],
    ) -> list[PartitionLog]:
        found = find_partitions(paths, takes=takes, is_compacted=is_compacted)
        if gone:
            while gone:
                shutil.rmtree(gone.pop())
            raise FileNotFoundError("gone")
        return found

    monkeypatch.setattr(jobs, "find_partitions", search)
    gone = [path for path in logs.iterdir() if path.name != "audit-0"]
    with pytest.raises(JobError, match=r"^no topic is called x; there is audit$"):
        names(logs, "x")
    gone = [logs / "audit-0"]
    with pytest.raises(JobError, match="no partitions there"):
        names(logs, "x")


def test_a_path_without_partitions_or_with_a_secret_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=f"^{tmp_path} {tmp_path}: no partitions there; name a br"):
        chosen([str(tmp_path), str(tmp_path)], ("orders",))
    with pytest.raises(JobError, match="credentials do not belong"):
        chosen(["s3://user:secret@bucket/logs"], ())


class Frame:
    """The frame of a job's tasks, in this process."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.partitions, self.by = table, 1, ""

    def repartition(self, count: int, by: str) -> "Frame":
        self.partitions, self.by = count, by
        return self

    def mapInArrow(self, work: Callable[..., Any], _schema: Any) -> "Frame":  # noqa: N802
        self.batches: Iterator[pa.RecordBatch] = work(iter(self.table.to_batches()))
        return self


def ran(tasks: list[Any], work: Callable[[Any], Iterator[dict[str, Any]]]) -> Any:
    session: Any = SimpleNamespace(createDataFrame=Frame)
    return run_tasks(session, tasks, work, SCHEMA)


def counted(task: tuple[str, int]) -> Iterator[dict[str, Any]]:
    name, count = task
    return ({"n": n, "text": name} for n in range(count))


@pytest.mark.parametrize("count", [0, 1, ROWS_MAX, ROWS_MAX + 1, 2 * ROWS_MAX + 500])
def test_all_rows_of_each_task_come_in_batches(count: int) -> None:
    batches = list(ran([("a", count), ("b", 2)], counted).batches)
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert rows == [(n, "a") for n in range(count)] + [(0, "b"), (1, "b")]
    assert all(0 < batch.num_rows <= ROWS_MAX for batch in batches)
    assert all(batch.schema == SCHEMA for batch in batches)
    assert len(batches) == -(-count // ROWS_MAX) + 1


def test_rows_come_before_the_task_has_ended() -> None:
    """A task of many rows holds one batch of them."""
    taken = []

    def work(_: Any) -> Iterator[dict[str, Any]]:
        for n in range(10 * ROWS_MAX):
            taken.append(n)
            yield {"n": n, "text": ""}

    next(ran([None], work).batches)
    assert len(taken) == ROWS_MAX


@pytest.mark.parametrize("count", [0, 1, 7])
def test_each_task_has_a_partition(count: int) -> None:
    frame = ran([("a", 0)] * count, counted)
    assert (frame.partitions, frame.by) == (max(1, count), "number")
    assert frame.table.column("number").to_pylist() == list(range(count))


def test_warnings_of_a_task_go_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a worker's memory is not looked through again and again."""
    steps: list[str] = []
    monkeypatch.setattr(jobs, "spare_what_is_loaded", lambda: steps.append("spare"))
    monkeypatch.setattr(jobs, "forward", lambda: steps.append("forward"))

    def work(_: Any) -> Iterator[dict[str, Any]]:
        steps.append("work")
        return iter(())

    list(ran([1, 2], work).batches)
    assert steps == ["spare", "forward", "work", "work"]


DAMAGE: Final = CorruptRecordsError("checksum does not match", 7)


@pytest.mark.parametrize(
    "error",
    [
        OSError("the disk is full"),
        CorruptSegmentError("/a/0.log", DAMAGE),
        DataLossError("a-0"),
        MissingOffsetsError("a-0"),
        NotMountedError("/a", "host"),
        SegmentChangedError("/a/0.log"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_names_a_file_stays_as_it_is(error: Exception) -> None:
    def work(_: Any) -> Iterator[dict[str, Any]]:
        yield {"n": 0, "text": ""}
        raise error

    with pytest.raises(type(error)) as caught:
        list(ran(["the task"], work).batches)
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DAMAGE, f"the task: {DAMAGE}"),
        (MixedClustersError("two clusters"), "the task: two clusters"),
        (KeyError("x"), "the task: KeyError: 'x'"),
        (ValueError("odd"), "the task: ValueError: odd"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_any_other_error_gets_the_name_of_its_task(error: Exception, words: str) -> None:
    def work(task: str) -> Iterator[dict[str, Any]]:
        if task == "the task":
            raise error
        yield {"n": 0, "text": task}

    with pytest.raises(TaskFailedError) as caught:
        list(ran(["before", "the task"], work).batches)
    assert str(caught.value) == words
    assert caught.value.__cause__ is error


def failing(error: Exception, *, skips: bool = False) -> str:
    """The message of a job that fails with this error."""
    tracker = SimpleNamespace(getJobIdsForGroup=list)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with pytest.raises(JobError) as caught, watched(session, "audit", no_step, skips=skips):
        raise error
    assert caught.value.__cause__ is error
    return str(caught.value)


def test_a_failed_job_is_one_line_that_names_what_can_be_done() -> None:
    of_worker = f"Traceback (most recent call last):\n  x\ndownconvert.spark.errors.E: bad{MODES}\n"
    assert failing(PySparkException(of_worker)) == "audit: bad"
    assert failing(PySparkException(of_worker), skips=True) == f"audit: bad{SKIPS}"
    assert failing(PySparkException("no memory"), skips=True) == "audit: no memory"
    lost = failing(PySparkException(WORKER_LOST[0]))
    assert lost == f"audit: {WORKER_LOST[0]}; run it again"


def test_an_error_that_is_not_sparks_stays_as_it_is() -> None:
    tracker = SimpleNamespace(getJobIdsForGroup=list)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with pytest.raises(KeyError), watched(session, "audit", no_step):
        raise KeyError("x")
