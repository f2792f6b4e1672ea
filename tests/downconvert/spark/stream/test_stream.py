"""Spark's calls of a streaming reader: in which order they come, and what is left at the end."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from downconvert.spark.logs.stored_trees import broker_of
from downconvert.spark.options.options import Options
from downconvert.spark.read.reader import Task
from downconvert.spark.stream.stream import SegmentStreamReader
from tests.downconvert.spark.descriptors import open_below
from tests.downconvert.spark.reading import packed, partition
from tests.downconvert.storage.logs import batch

from .test_follow import Limit, append, read, stream


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    partition(path, batch(0) + batch(1) + batch(2), "a-0")
    partition(path, batch(5) + batch(6), "b-1", 5)
    return path


ONE: Any = Limit(max_rows=1)


def test_spark_gets_each_limit_as_its_own_kind(directory: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

    rows = stream(directory, maxOffsetsPerTrigger=7).getDefaultReadLimit()
    assert isinstance(rows, ReadMaxRows)
    assert rows.max_rows == 7
    size = stream(directory, maxBytesPerTrigger=9).getDefaultReadLimit()
    assert isinstance(size, ReadMaxBytes)
    assert size.max_bytes == 9
    assert isinstance(stream(directory).getDefaultReadLimit(), ReadAllAvailable)


def test_without_a_position_a_stream_goes_on_from_the_last_one(directory: Path) -> None:
    """Before Spark 4.2 it is not passed."""
    source = stream(directory)
    assert source.initialOffset() == {"a": {"0": 0}, "b": {"1": 5}}
    limit: Any = Limit(max_rows=2)
    seen = [source.latestOffset(None, limit) for _ in range(4)]
    assert [one["a"]["0"] + one["b"]["1"] - 5 for one in seen] == [2, 4, 5, 5]


def test_a_position_of_sparks_counts_more_than_the_last_one(directory: Path) -> None:
    source = stream(directory)
    start = source.initialOffset()
    first = source.latestOffset(start, ONE)
    assert source.latestOffset(first) == {"a": {"0": 3}, "b": {"1": 7}}
    assert source.latestOffset(start, ONE) != source.latestOffset(first)


def test_after_a_restart_without_a_position_everything_is_the_end(directory: Path) -> None:
    assert stream(directory).latestOffset(None, ONE) == {"a": {"0": 3}, "b": {"1": 7}}


def test_a_query_of_what_is_there_does_not_wait_for_missing_offsets(directory: Path) -> None:
    partition(directory, batch(9), "a-0", 9)
    start = {"a": {"0": 0}, "b": {"1": 5}}
    source = stream(directory, failOnDataLoss=False, gapTimeoutMs=3_600_000)
    waiting = source.latestOffset(start)
    assert waiting["a"]["0"]["offset"] == 3
    source = stream(directory, failOnDataLoss=False, gapTimeoutMs=3_600_000)
    source.prepareForTriggerAvailableNow()
    assert source.latestOffset(start) == {"a": {"0": 10}, "b": {"1": 7}}


def test_the_target_of_a_query_is_not_passed_and_has_no_later_partitions(directory: Path) -> None:
    source = stream(directory)
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    append(directory / "a-0", batch(3))
    partition(directory, batch(0), "c-0")
    assert source.reportLatestOffset() == {"a": {"0": 4}, "b": {"1": 7}, "c": {"0": 1}}
    for _ in range(2):
        start = source.latestOffset(start)
        assert start == {"a": {"0": 3}, "b": {"1": 7}}


@pytest.mark.parametrize("is_packed", [False, True])
def test_the_latest_offsets_need_no_other_listing(directory: Path, is_packed: bool) -> None:
    source = stream(packed(directory) if is_packed else directory)
    end = source.latestOffset(source.initialOffset())
    append(directory / "a-0", batch(3))
    packed(directory)
    told = source.reportLatestOffset()
    assert (told == end) is is_packed
    assert source.latestOffset(end)["a"]["0"] == 4
    assert source.reportLatestOffset()["a"]["0"] == 4


def test_a_stream_keeps_no_file_open(directory: Path) -> None:
    """There may be ten thousand partitions."""
    source = stream(directory)
    end = source.latestOffset(source.initialOffset())
    assert open_below(directory) == []
    append(directory / "a-0", batch(3))
    assert source.latestOffset(end) == {"a": {"0": 4}, "b": {"1": 7}}
    assert open_below(directory) == []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """A partition in a store."""
    partition(tmp_path / "far", batch(0) + batch(1), "c-0")
    files = fsspec.filesystem("memory")
    files.put(f"{tmp_path}/far/", f"/{tmp_path.name}/", recursive=True)
    yield f"memory://{tmp_path.name}"
    files.rm(f"/{tmp_path.name}", recursive=True)


@pytest.mark.parametrize("is_first", [False, True])
def test_directories_and_stores_are_followed_together(
    directory: Path, store: str, is_first: bool
) -> None:
    paths = [store, str(directory)] if is_first else [str(directory), store]
    source = stream(json.dumps(paths))
    start = source.initialOffset()
    assert start == {"a": {"0": 0}, "b": {"1": 5}, "c": {"0": 0}}
    end = source.latestOffset(start)
    assert len(read(source, start, end)) == 7


def test_columns_that_there_are_not_are_refused_at_once(directory: Path) -> None:
    options = Options.parse({"path": str(directory)}, streaming=True)
    with pytest.raises(ValueError, match="nothing"):
        SegmentStreamReader(options, StructType([StructField("nothing", LongType())]))


def test_splits_are_spread_over_tasks_and_nothing_is_no_task(directory: Path) -> None:
    source = stream(directory, minPartitions=2)
    start = source.initialOffset()
    end = source.latestOffset(start)
    tasks = source.partitions(start, end)
    assert len(tasks) == 2
    assert all(isinstance(task, Task) for task in tasks)
    assert len(stream(directory).partitions(start, end)) == 1
    assert source.partitions(end, end) == []
    assert list(source.read(InputPartition(None))) == []


def test_the_high_watermark_of_a_tar_is_the_one_of_its_latest_listing(directory: Path) -> None:
    def note(offset: int) -> Path:
        text = f"0\n2\na 0 {offset}\nb 1 7\n"
        (directory / "replication-offset-checkpoint").write_text(text)
        return packed(directory)

    copies = Path(broker_of({})).parent  # of brokers' checkpoints; of other tests, too
    before = set(copies.iterdir())
    source = stream(note(1), stopAtHighWatermark=True)
    place = source.initialOffset()
    for offset in (1, 2, 2, 3):
        note(offset)
        place = source.latestOffset(place)
        assert place == {"a": {"0": offset}, "b": {"1": 7}}
        assert len(set(copies.iterdir()) - before) == 1
