"""Rows of the brokers' own topics, in order and up to a limit."""

from pathlib import Path
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


def rows(session: SparkSession, logs: Path, **options: Any) -> tuple[list[Any], bool]:
    found, is_all = run(session, [str(logs)], "offset", order=ORDER, **options)
    return [(row["group"], row["topic"], row["partition"]) for row in found], is_all


SORTED = [("g1", "t", 2), ("g1", "t", 10), ("g1", "u", 0), ("g2", "t", 0), ("g2", "t", 1)]


@pytest.mark.parametrize(("limit", "is_all"), [(1, False), (4, False), (5, True), (6, True)])
def test_the_first_rows_in_order_and_whether_these_are_all(
    spark: SparkSession, logs: Path, limit: int, is_all: bool
) -> None:
    assert rows(spark, logs, limit=limit) == (SORTED[:limit], is_all)


def test_rows_of_some_groups(spark: SparkSession, logs: Path) -> None:
    assert rows(spark, logs, limit=9, names=["g2", "none"]) == (SORTED[3:], True)
    assert rows(spark, logs, limit=9, names=["none"]) == ([], True)


def test_rows_within_a_row_are_plain_values(spark: SparkSession, logs: Path) -> None:
    (row,), is_all = run(spark, [str(logs)], "group", order=("group",), limit=9)
    assert is_all
    assert row["group"] == "g1"
    assert [member["memberId"] for member in row["members"]] == ["m-1"]
    assert all(type(member) is dict for member in row["members"])


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, logs: Path) -> None:
    with pytest.raises(JobError, match="__transaction_state is not there"):
        run(spark, [str(logs)], "transaction", order=("transactionalId",), limit=9)


def test_damage_ends_a_run_or_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    good = (write_key(RecordKey("g", ("t", 0))), write_committed(Committed(1)))
    kept(tmp_path / "__consumer_offsets-0", good, (b"\0\1\0", b"?"))
    with pytest.raises(JobError, match=r"read __consumer_offsets: .*skip_damaged") as caught:
        rows(spark, tmp_path, limit=9)
    assert "PERMISSIVE" not in str(caught.value)
    assert rows(spark, tmp_path, limit=9, skip_damaged=True) == ([("g", "t", 0)], True)
