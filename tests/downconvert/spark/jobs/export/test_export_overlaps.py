"""Another run, or a new leader, comes between the beginning of a run and its note."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from downconvert.spark.jobs.export import export_noted
from downconvert.spark.jobs.export.export_manifest import FOLDER
from downconvert.spark.jobs.export.export_noted import add
from downconvert.spark.jobs.export.export_plan import Settings, bounds_of
from downconvert.spark.jobs.export.export_stored import write_records
from downconvert.spark.jobs.export.export_stored_notes import StoredNotes
from downconvert.spark.jobs.jobs import JobError, chosen
from downconvert.spark.jobs.progress import no_step
from downconvert.storage.names import TopicPartition
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.in_process import SESSION, without_spark
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

DAY = 86_400_000
OVERLAP = "another export has written to it meanwhile"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    partition(tmp_path / "logs", batch(0, 1, timestamp=DAY), "a-0")
    return tmp_path / "logs"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    yield f"memory://{tmp_path.name}/lake"
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def to_store(patch: pytest.MonkeyPatch, source: Path, target: str) -> None:
    with patch.context() as patched:
        without_spark(patched)
        logs, given = chosen([str(source)], ()), Settings()
        notes = StoredNotes(target)
        add(SESSION, logs, notes, settings=given, step=no_step)


def stored(target: str) -> list[int]:
    """The offsets in all files of a store."""
    files, found = fsspec.filesystem("memory"), list[int]()
    for name in files.find(target.removeprefix("memory:/")):
        if "/topic=" in name:
            with files.open(name) as file:
                table = pq.ParquetFile(pa.BufferReader(file.read())).read(["offset"])
            found += table.column(0).to_pylist()
    return sorted(found)


def meanwhile(patch: pytest.MonkeyPatch, what: Callable[[], object], *, is_written: bool) -> None:
    """Does something before a run's files are written, or after that."""

    def between(*given: Any, **options: Any) -> object:
        patch.setattr(export_noted, "write_records", write_records)
        if not is_written:
            what()
        found = write_records(*given, **options)
        if is_written:
            what()
        return found

    patch.setattr(export_noted, "write_records", between)


@pytest.mark.parametrize("is_written", [False, True])
def test_one_of_two_runs_at_once_adds_its_records_to_a_directory(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    lake = tmp_path / "lake"
    with monkeypatch.context() as patch:
        other = partial(exported, monkeypatch, source, lake)
        meanwhile(patch, other, is_written=is_written)
        with pytest.raises(JobError, match=OVERLAP):
            exported(monkeypatch, source, lake)
    assert [row[2] for row in archived(lake)] == [0, 1]
    partition(source, batch(2, timestamp=DAY), "a-0", 2)
    exported(monkeypatch, source, lake)
    assert [row[2] for row in archived(lake)] == [0, 1, 2]
    assert len(list((lake / FOLDER).iterdir())) == 1


@pytest.mark.parametrize("is_written", [False, True])
def test_one_of_two_runs_at_once_adds_its_records_to_a_store(
    source: Path, store: str, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    with monkeypatch.context() as patch:
        other = partial(to_store, monkeypatch, source, store)
        meanwhile(patch, other, is_written=is_written)
        with pytest.raises(JobError, match=OVERLAP):
            to_store(monkeypatch, source, store)
    partition(source, batch(2, timestamp=DAY), "a-0", 2)
    to_store(monkeypatch, source, store)
    assert stored(store) == [0, 1, 2]
    there = StoredNotes(store).read("read_uncommitted")
    assert there.ranges == {TopicPartition("a", 0): [(0, 3)]}


def test_a_run_whose_files_another_one_took_for_those_of_a_killed_one_is_not_noted(
    source: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        meanwhile(patch, lambda: StoredNotes(store).remove_lost(), is_written=True)
        with pytest.raises(JobError, match=OVERLAP):
            to_store(monkeypatch, source, store)
    assert StoredNotes(store).read("read_uncommitted").ranges == {}
    to_store(monkeypatch, source, store)
    assert stored(store) == [0, 1]


def log(source: Path, *epochs: tuple[int, int, int], size: int = 10) -> None:
    """A log of epochs: the epoch, and its offsets from one up to another. `size`: of the values of
    epoch 1, others have 10 bytes."""
    batches = [
        batch(offset, timestamp=DAY, size=size if epoch else 10, leader_epoch=epoch)
        for epoch, start, end in epochs
        for offset in range(start, end)
    ]
    partition(source, b"".join(batches), "a-0")


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("size", [10, 11])
def test_records_that_are_truncated_during_a_run_are_not_noted_as_those_of_the_new_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool, size: int
) -> None:
    """At once, or by the next run, if the last record is not at its place in the file any more."""
    source, lake = tmp_path / "logs", tmp_path / "lake"

    def run_twice() -> None:
        for _ in range(2):
            exported(monkeypatch, source, lake)

    log(source, (0, 0, 10))
    with monkeypatch.context() as patch:
        later = partial(log, source, (0, 0, 7), (1, 7, 12), size=size)
        meanwhile(patch, later, is_written=is_written)
        when = (
            "truncated them during the run" if size == 10 else "truncated them: run it with repair"
        )
        with pytest.raises(JobError, match=when):
            run_twice()
    there = exported(monkeypatch, source, lake, repair=True)
    assert there.epochs == {TopicPartition("a", 0): {12: 1}}
    assert [(row[2], len(row[3])) for row in archived(lake)] == [
        (offset, size if offset >= 7 else 10) for offset in range(12)
    ]


def test_a_truncation_between_the_check_of_the_target_and_the_plan_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = tmp_path / "logs", tmp_path / "lake"
    log(source, (0, 0, 5))
    exported(monkeypatch, source, lake)

    def later(*given: Any) -> object:
        log(source, (0, 0, 3), (1, 3, 8), size=11)
        return bounds_of(*given)

    with monkeypatch.context() as patch:
        patch.setattr(export_noted, "bounds_of", later)
        with pytest.raises(JobError, match="a-0: a later leader has truncated"):
            exported(monkeypatch, source, lake)
    exported(monkeypatch, source, lake, repair=True)
    assert [len(row[3]) for row in archived(lake)] == [10] * 3 + [11] * 5
