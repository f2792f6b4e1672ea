"""A query's filters leave out segments, and never one that has a wanted record."""

import random
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import datasource as ds

from downconvert.spark.plan.bounds import INT64_MAX, Bounds
from downconvert.spark.read.reader import SegmentReader, Task
from tests.downconvert.spark.reading import partition, reader
from tests.downconvert.storage.logs import batch, indexed_segment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME = datetime(2024, 5, 1, 12, tzinfo=UTC)
MICROSECONDS = int(TIME.timestamp()) * 1_000_000


def narrowed(*filters: ds.Filter) -> Bounds:
    return Bounds().narrowed(filters)


def test_comparisons_of_offsets() -> None:
    bounds = narrowed(ds.GreaterThan(("offset",), 5), ds.LessThanOrEqual(("offset",), 9))
    assert (bounds.offset_min, bounds.offset_max) == (6, 9)
    bounds = narrowed(ds.GreaterThanOrEqual(("offset",), 5), ds.LessThan(("offset",), 9))
    assert (bounds.offset_min, bounds.offset_max) == (5, 8)
    bounds = narrowed(ds.In(("offset",), (7, 3, 5)), ds.EqualTo(("offset",), 3))
    assert (bounds.offset_min, bounds.offset_max) == (3, 3)


def test_filters_on_one_column_are_all_kept() -> None:
    bounds = narrowed(ds.GreaterThan(("offset",), 5), ds.GreaterThan(("offset",), 2))
    assert bounds.offset_min == 6
    topics = narrowed(ds.In(("topic",), ("a", "b")), ds.In(("topic",), ("b", "c")))
    assert topics.topics == frozenset("b")
    numbers = narrowed(ds.In(("partition",), (0, 4, 9)), ds.In(("partition",), (3, 4, 7)))
    assert [number for number in range(12) if numbers.takes("a", number)] == [4]
    between = narrowed(ds.GreaterThan(("partition",), 1), ds.LessThan(("partition",), 4))
    assert [number for number in range(12) if between.takes("a", number)] == [2, 3]


COMPARISONS: Final = {
    ds.EqualTo: lambda one, value: one == value,
    ds.EqualNullSafe: lambda one, value: one == value,
    ds.GreaterThan: lambda one, value: one > value,
    ds.GreaterThanOrEqual: lambda one, value: one >= value,
    ds.LessThan: lambda one, value: one < value,
    ds.LessThanOrEqual: lambda one, value: one <= value,
}


@pytest.mark.parametrize("column", ["offset", "partition", "timestamp"])
def test_any_filters_leave_only_what_all_of_them_take(column: str) -> None:
    """In any order and number. Several offsets or times leave all from the least to the highest."""
    chance = random.Random(column)
    for _ in range(300):
        filters: list[ds.Filter] = []
        taken = set(range(-2, 12))
        for _ in range(chance.randrange(1, 5)):
            kind = chance.choice([*COMPARISONS, ds.In])
            values = [chance.randrange(10) for _ in range(3 if kind is ds.In else 1)]
            given: Any = [_of_column(column, value) for value in values]
            filters.append(kind((column,), tuple(given) if kind is ds.In else given[0]))
            if kind is not ds.In:
                taken &= {one for one in taken if COMPARISONS[kind](one, values[0])}
            elif column == "partition":
                taken &= set(values)
            else:
                taken &= set(range(min(values), max(values) + 1))
        bounds = narrowed(*filters)
        found = {one for one in range(-2, 12) if _takes(bounds, column, one)}
        assert found == taken, filters


def _of_column(column: str, value: int) -> int | datetime:
    return EPOCH + timedelta(microseconds=value) if column == "timestamp" else value


def _takes(bounds: Bounds, column: str, value: int) -> bool:
    if column == "partition":
        return bounds.takes("a", value)
    if column == "offset":
        return bounds.offset_min <= value <= bounds.offset_max
    return bounds.time_min <= value <= bounds.time_max


def test_topics_and_partitions() -> None:
    bounds = narrowed(ds.EqualTo(("topic",), "a"), ds.In(("partition",), (0, 2)))
    assert [bounds.takes("a", p) for p in range(4)] == [True, False, True, False]
    assert not bounds.takes("b", 0)
    assert [narrowed(ds.GreaterThan(("partition",), 1)).takes("a", p) for p in (1, 2)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    "time", [TIME, TIME.replace(tzinfo=None), TIME.astimezone(timezone(timedelta(hours=5)))]
)
def test_timestamps_are_those_of_any_zone(time: datetime) -> None:
    assert narrowed(ds.GreaterThanOrEqual(("timestamp",), time)).time_min == MICROSECONDS


@pytest.mark.parametrize(
    "filter_",
    [
        ds.Not(ds.EqualTo(("topic",), "a")),
        ds.Not(ds.GreaterThan(("offset",), 5)),
        ds.IsNotNull(("offset",)),
        ds.StringStartsWith(("topic",), "a"),
        ds.EqualTo(("key",), b"x"),
        ds.EqualTo(("headers", "key"), "x"),
        ds.GreaterThan(("offset", "key"), 5),
        ds.EqualTo(("topic", "key"), "x"),
        ds.EqualTo(("offset",), None),
        ds.GreaterThan(("timestamp",), "2024"),
    ],
)
def test_filters_that_are_not_understood_leave_nothing_out(filter_: ds.Filter) -> None:
    assert narrowed(filter_) == Bounds()


def test_partitions_that_nobody_wants_are_not_planned(tmp_path: Path) -> None:
    for topic in ("a", "b"):
        for number in range(3):
            partition(tmp_path, batch(0), f"{topic}-{number}")
    source = reader(tmp_path)
    filters = [ds.EqualTo(("topic",), "a"), ds.GreaterThan(("partition",), 0)]
    assert source.pushFilters(filters) == filters  # Spark filters once more
    assert planned(source) == [("a", 1), ("a", 2)]


def test_offsets_are_looked_up_and_rows_left_out(tmp_path: Path) -> None:
    many = [batch(10 * i, 10 * i + 5, size=200) for i in range(100)]
    indexed_segment(tmp_path / "t-0", 0, *many, interval=1000)
    source = reader(tmp_path)
    source.pushFilters([ds.GreaterThan(("offset",), 700), ds.LessThan(("offset",), 720)])
    (task,) = source.partitions()
    assert isinstance(task, Task)
    assert task.splits[0].size < 6000
    assert offsets(source) == [705, 710, 715]


def test_a_filter_by_time_leaves_out_rows_within_a_batch(tmp_path: Path) -> None:
    partition(tmp_path, batch(*range(10)) + batch(*range(10, 20), codec=4))
    source = reader(tmp_path)
    low, high = (datetime.fromtimestamp(t / 1000, UTC) for t in (50, 130))
    filters = [ds.GreaterThanOrEqual(("timestamp",), low), ds.LessThan(("timestamp",), high)]
    source.pushFilters(filters)
    assert offsets(source) == list(range(5, 13))


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize(("low", "first"), [(189, 19), (190, 19), (191, 20), (200, 20)])
def test_a_batch_is_read_whose_youngest_record_has_exactly_the_lowest_time(
    tmp_path: Path, low: int, first: int, magic: int
) -> None:
    data = (batch(*range(at, at + 10), codec=1, magic=magic) for at in (0, 10, 20))
    partition(tmp_path, b"".join(data))
    source = reader(tmp_path)
    time = datetime.fromtimestamp(low / 1000, UTC)
    source.pushFilters([ds.GreaterThanOrEqual(("timestamp",), time)])
    assert offsets(source) == list(range(first, 30))


def test_the_empty_partition_of_an_empty_plan_has_no_rows(tmp_path: Path) -> None:
    partition(tmp_path, batch(0))
    source = reader(tmp_path)
    source.pushFilters([ds.GreaterThan(("offset",), INT64_MAX)])
    assert source.partitions() == []
    assert list(source.read(ds.InputPartition(None))) == []


def planned(source: SegmentReader) -> list[tuple[str, int]]:
    tasks = [task for task in source.partitions() if isinstance(task, Task)]
    return [(split.topic, split.partition) for task in tasks for split in task.splits]


def offsets(source: SegmentReader) -> list[int]:
    return [
        offset
        for task in source.partitions()
        for found in source.read(task)
        for offset in found.column("offset").to_pylist()
    ]
