"""Rows of the brokers' own topics, in order and up to a limit.

Rows are read, selected and put in order in this process; what only Spark does is at the end."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from downconvert.internal_topics.group_records import (
    Committed,
    RecordKey,
    StoredGroup,
    StoredMember,
    write_committed,
    write_group,
    write_key,
)
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.jobs.state import run
from downconvert.spark.source import FORMAT
from tests.downconvert.spark import reading
from tests.downconvert.spark.reading import kept, partition
from tests.downconvert.storage.logs import batch

ORDER = ("group", "topic", "partition")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Offsets of two groups, written in no order, and a group with a member; another topic."""
    path = tmp_path_factory.mktemp("state")
    partition(path, batch(0), "a-0")
    places = [("g2", "t", 1), ("g1", "u", 0), ("g1", "t", 10), ("g1", "t", 2), ("g2", "t", 0)]
    offsets = [
        (write_key(RecordKey(group, (topic, number))), write_committed(Committed(number + 100)))
        for group, topic, number in places
    ]
    member = StoredMember("m-1", None, "c", "/h", 10, 20, b"sub", b"as")
    group = StoredGroup("consumer", 3, "range", "m-1", 1000, (member,))
    kept(path / "__consumer_offsets-0", *offsets, (write_key(RecordKey("g1")), write_group(group)))
    return path


Row = dict[str, Any]


class Frame:
    """Rows, with what a job asks of a frame."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def __getitem__(self, name: str) -> Any:
        def isin(values: list[str]) -> Callable[[Row], bool]:
            return lambda row: row[name] in values

        return SimpleNamespace(isin=isin)

    def where(self, takes: Callable[[Row], bool]) -> "Frame":
        return Frame(list(filter(takes, self.rows)))

    def orderBy(self, *names: str) -> "Frame":  # noqa: N802 - Spark's name
        return Frame(sorted(self.rows, key=lambda row: [row[name] for name in names]))

    def limit(self, count: int) -> "Frame":
        return Frame(self.rows[:count])

    def collect(self) -> list[Any]:
        return [
            SimpleNamespace(asDict=lambda recursive=False, row=row: row if recursive else None)
            for row in self.rows
        ]


class Source:
    """Reads as Spark does, in this process. `options`: those of the last query."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        tracker = SimpleNamespace(getJobIdsForGroup=list)
        self.sparkContext = SimpleNamespace(statusTracker=lambda: tracker)

    @property
    def read(self) -> "Source":
        self.options = {}
        return self

    def format(self, name: str) -> "Source":
        assert name == FORMAT
        return self

    def option(self, name: str, value: str) -> "Source":
        self.options[name] = value
        return self

    def load(self, paths: list[str]) -> Frame:
        (path,) = paths
        return Frame(reading.rows(path, **self.options))


SOURCE: Any = Source()


def rows(logs: Path, session: SparkSession | None = None, **options: Any) -> tuple[list[Any], bool]:
    found, is_all = run(session or SOURCE, [str(logs)], "offset", order=ORDER, **options)
    return [(row["group"], row["topic"], row["partition"]) for row in found], is_all


SORTED = [("g1", "t", 2), ("g1", "t", 10), ("g1", "u", 0), ("g2", "t", 0), ("g2", "t", 1)]


@pytest.mark.parametrize(("limit", "is_all"), [(1, False), (4, False), (5, True), (6, True)])
def test_the_first_rows_in_order_and_whether_these_are_all(
    logs: Path, limit: int, is_all: bool
) -> None:
    assert rows(logs, limit=limit) == (SORTED[:limit], is_all)


def test_rows_of_some_groups(logs: Path) -> None:
    assert rows(logs, limit=9, names=["g2", "none"]) == (SORTED[3:], True)
    assert rows(logs, limit=9, names=["none"]) == ([], True)


def test_each_level_has_its_own_rows(logs: Path) -> None:
    (row,), is_all = run(SOURCE, [str(logs)], "group", order=("group",), limit=9)
    assert is_all
    assert (row["group"], row["members"][0]["memberId"]) == ("g1", "m-1")


@pytest.mark.parametrize(("skip", "mode"), [(True, "DROPMALFORMED"), (False, "FAILFAST")])
def test_damage_is_skipped_only_if_that_is_asked_for(logs: Path, skip: bool, mode: str) -> None:
    rows(logs, limit=9, skip_damaged=skip)
    assert SOURCE.options == {"level": "offset", "mode": mode}


def test_a_topic_that_is_not_there_is_named(logs: Path) -> None:
    with pytest.raises(JobError, match="__transaction_state is not there"):
        run(SOURCE, [str(logs)], "transaction", order=("transactionalId",), limit=9)


def test_spark_finds_the_same(spark: SparkSession, logs: Path) -> None:
    for options in ({"limit": 4}, {"limit": 9, "names": ["g2"]}):
        assert rows(logs, spark, **options) == rows(logs, **options)
    (row,), _ = run(spark, [str(logs)], "group", order=("group",), limit=9)
    assert all(type(member) is dict for member in row["members"])


def test_damage_ends_a_run_or_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    good = (write_key(RecordKey("g", ("t", 0))), write_committed(Committed(1)))
    kept(tmp_path / "__consumer_offsets-0", good, (b"\0\1\0", b"?"))
    with pytest.raises(JobError, match=r"read __consumer_offsets: .*skip_damaged") as caught:
        rows(tmp_path, spark, limit=9)
    assert "PERMISSIVE" not in str(caught.value)
    assert rows(tmp_path, spark, limit=9, skip_damaged=True) == ([("g", "t", 0)], True)
