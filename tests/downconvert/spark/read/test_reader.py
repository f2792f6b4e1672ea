"""Files that are gone, or others, when a task comes to them."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource

from downconvert.spark.errors import DataLossError
from downconvert.spark.read.reader import Task
from downconvert.spark.stores import stores
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.reading import packed, partition, reader
from tests.downconvert.storage.logs import batch
from tests.object_store import ObjectStore


def test_a_file_that_is_not_in_a_directory_is_lost_and_not_on_another_machine(
    tmp_path: Path,
) -> None:
    partition(tmp_path / "logs", batch(0))
    tar = packed(tmp_path / "logs")
    source = reader(tar)
    (task,) = source.partitions()
    tar.unlink()
    assert isinstance(task, Task)
    with pytest.raises(DataLossError, match="was deleted after the query was planned"):
        list(source.read(task))


@pytest.mark.parametrize("less", [1, 40])
def test_a_file_that_is_shorter_than_planned_was_changed(tmp_path: Path, less: int) -> None:
    log = partition(tmp_path, batch(0) + batch(1)) / file_name(0, Kind.LOG)
    for strict in (True, False):
        log.write_bytes(batch(0) + batch(1))
        source = reader(tmp_path, failOnDataLoss=strict)
        (task,) = source.partitions()
        log.write_bytes(log.read_bytes()[:-less])
        assert isinstance(task, Task)
        if strict:
            with pytest.raises(DataLossError):
                list(source.read(task))
        else:
            with pytest.warns(RuntimeWarning, match=log.name):
                assert list(source.read(task)) == []


def check_read(source: Any, task: Task, *, fails: bool) -> None:
    """A task either says that its segment was changed, or reads all planned records."""
    if fails:
        with pytest.raises(DataLossError, match="was cleaned or truncated"):
            list(source.read(task))
    else:
        rows = [row for found in source.read(task) for row in found.to_pylist()]
        assert [row["offset"] for row in rows] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("how", "fails"), [("cleaned", True), ("copied", False), ("copied again", False)]
)
def test_a_rolled_segment_that_a_cleaner_has_replaced_by_a_longer_one_was_changed(
    tmp_path: Path, how: str, fails: bool
) -> None:
    """It has the records of following segments too. A file that is still being copied only
    grows, and the records that were planned are at the same positions."""
    log = partition(tmp_path, batch(0) + batch(1)) / file_name(0, Kind.LOG)
    partition(tmp_path, batch(2) + batch(3), "topic-0", 2)
    source = reader(tmp_path)
    (task,) = source.partitions()
    assert isinstance(task, Task)
    if how == "cleaned":
        swap = log.with_suffix(".log.swap")
        swap.write_bytes(batch(1) + batch(2) + batch(3))
        swap.rename(log)
    elif how == "copied again":
        part = log.with_suffix(".part")
        part.write_bytes(log.read_bytes())
        part.rename(log)
    else:
        with log.open("ab") as file:
            file.write(batch(2))
    check_read(source, task, fails=fails)


@pytest.mark.others
@pytest.mark.parametrize("client", ["arrow", "sockets"])
@pytest.mark.parametrize(("base", "fails"), [(0, True), (2, False)])
def test_an_object_of_a_rolled_segment_that_a_longer_one_has_replaced_was_changed(
    store: tuple[ObjectStore, Path],
    monkeypatch: pytest.MonkeyPatch,
    client: str,
    base: int,
    fails: bool,
) -> None:
    """The last segment grows: each copy of a log replaces it by a longer object."""
    if client == "arrow":
        monkeypatch.setattr(stores, "ranges_at", lambda _: None)
    path = store[1] / f"replaced-{client}-{base}"
    log = partition(path, batch(0) + batch(1)) / file_name(0, Kind.LOG)
    partition(path, batch(2) + batch(3), base_offset=2)
    source = reader(f"s3://bucket/{path.name}")
    (task,) = source.partitions()
    assert isinstance(task, Task)
    replaced = log.with_name(file_name(base, Kind.LOG))
    replaced.write_bytes(batch(base) + batch(base + 1) + batch(4))
    check_read(source, task, fails=fails)


@pytest.mark.parametrize("level", ["record", "offset"])
def test_filters_choose_partitions_unless_rows_have_columns_of_their_own(
    tmp_path: Path, level: str
) -> None:
    """A committed offset is of another topic and partition than the record that has it."""
    for number in (0, 7):
        partition(tmp_path, batch(0), f"__consumer_offsets-{number}")
    source = reader(tmp_path, level=level)
    source.narrow([datasource.EqualTo(("partition",), 7)])
    tasks = [task for task in source.partitions() if isinstance(task, Task)]
    found = [split.partition for task in tasks for split in task.splits]
    assert found == ([7] if level == "record" else [0, 7])
