"""A directory of Parquet files: by which names it is known, which files count, and in which order
notes and files are written."""

from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.jobs.export import export_directory, export_stored
from downconvert.spark.jobs.export.export_directory import (
    MOVING,
    STAGING,
    DirectoryNotes,
    add_to,
    directory_of,
    uri_of,
)
from downconvert.spark.jobs.export.export_manifest import FOLDER, SUFFIX, Exported
from downconvert.spark.jobs.export.export_plan import Settings
from downconvert.spark.jobs.export.export_stored import Written
from downconvert.spark.jobs.jobs import JobError, chosen
from downconvert.spark.jobs.progress import no_step
from downconvert.storage import TopicPartition
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.in_process import SESSION, in_process, without_spark
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

A = TopicPartition("a", 0)
DAY = 86_400_000


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/lake/a", "/lake/a"),
        ("/lake/a%20b", "/lake/a%20b"),
        ("file:/lake/a", "/lake/a"),
        ("file:///lake/a%20b", "/lake/a b"),
        ("FILE:///lake/a", "/lake/a"),
        ("/lake/a:/b", "/lake/a:/b"),
    ],
)
def test_a_directory_is_named_by_a_path_or_a_uri(target: str, expected: str) -> None:
    assert directory_of(target) == Path(expected)


def test_a_relative_directory_is_absolute_for_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert directory_of("lake") == tmp_path / "lake"
    assert uri_of(directory_of("my lake")) == f"file://{tmp_path}/my lake"


def test_a_target_that_is_no_directory_is_refused() -> None:
    with pytest.raises(JobError, match=r"^hdfs:/lake: name it by a path .*or as hdfs://\.\.\.$"):
        directory_of("hdfs:/lake")
    with pytest.raises(ValueError, match="empty"):
        directory_of("")


def staged(notes: DirectoryNotes, *names: str) -> list[Written]:
    """Files of a run that are not in their places."""
    found = []
    for name in names:
        path = notes.staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        found.append(Written(name, 1, 1, {}))
    return found


def note(*files: str, end: int = 3, isolation: str = "read_uncommitted") -> Exported:
    return Exported(isolation, ranges={A: [(0, end)]}, files=set(files))


def names(directory: Path) -> list[str]:
    return sorted(str(one.relative_to(directory)) for one in directory.rglob("*") if one.is_file())


ONE, TWO = "topic=a/date=2024-01-01/1.parquet", "topic=a/date=2024-01-02/2.parquet"


def test_files_of_a_run_are_in_their_places_with_one_note(tmp_path: Path) -> None:
    for name, end in ((ONE, 3), (TWO, 5)):
        notes = DirectoryNotes(tmp_path)
        there = notes.read("read_uncommitted")
        files = {*there.files, name}
        notes.write(note(*files, end=end), staged(notes, name))
        notes.close()
        assert not notes.staging.exists()
    found = DirectoryNotes(tmp_path).read("read_uncommitted")
    assert (found.ranges, found.files) == ({A: [(0, 5)]}, {ONE, TWO})
    assert [name for name in names(tmp_path) if name.endswith("parquet")] == [ONE, TWO]
    (left,) = (tmp_path / FOLDER).iterdir()
    assert left.name.endswith(SUFFIX)
    assert (tmp_path / ONE).read_text() == ONE


def test_a_note_of_the_other_isolation_stays(tmp_path: Path) -> None:
    for isolation in ("read_committed", "read_uncommitted", "read_committed"):
        notes = DirectoryNotes(tmp_path)
        notes.write(note(isolation=isolation), [])
        notes.close()
    assert len(list((tmp_path / FOLDER).iterdir())) == 2


def died(
    directory: Path,
    *files: str,
    moved: int,
    is_lost: bool = False,
    isolation: str = "read_uncommitted",
) -> DirectoryNotes:
    """A run that died with so many of its files in their places."""
    notes = DirectoryNotes(directory)
    staged(notes, *files)
    (directory / FOLDER).mkdir(exist_ok=True)
    moving = directory / FOLDER / f"{notes.staging.name}{MOVING}"
    moving.write_bytes(note(*files, isolation=isolation).to_json().encode())
    for name in files[:moved]:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (notes.staging / name).replace(directory / name)
    if is_lost:
        (notes.staging / files[-1]).unlink()
    return notes


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_run_that_died_is_finished_and_its_folder_stays_until_then(
    tmp_path: Path, moved: int
) -> None:
    dead = died(tmp_path, ONE, TWO, moved=moved)
    dead.close()
    assert dead.staging.exists()
    notes = DirectoryNotes(tmp_path)
    assert notes.read("read_uncommitted").files == {ONE, TWO}
    assert [name for name in names(tmp_path) if "moving" in name or STAGING in name] == []
    notes.remove_lost()
    assert not dead.staging.exists()
    assert names(tmp_path)[-2:] == [ONE, TWO]


def test_each_of_several_runs_that_died_is_finished(tmp_path: Path) -> None:
    died(tmp_path, ONE, moved=0, isolation="read_committed")
    died(tmp_path, TWO, moved=0)
    for name in ("_run-0", "_run-zz"):  # cut off: one before and one after the others
        (tmp_path / FOLDER / f"{name}{MOVING}").write_bytes(b'{"ranges"')
    assert DirectoryNotes(tmp_path).read("read_uncommitted").files == {TWO}
    assert names(tmp_path)[-2:] == [ONE, TWO]
    assert [path.suffix for path in (tmp_path / FOLDER).iterdir()] == [SUFFIX] * 2


def test_a_run_with_a_lost_file_counts_as_one_without_a_note(tmp_path: Path) -> None:
    died(tmp_path, ONE, TWO, moved=1, is_lost=True)
    notes = DirectoryNotes(tmp_path)
    found = notes.read("read_uncommitted")
    assert (found.ranges, found.files) == ({}, set())
    assert not list((tmp_path / FOLDER).iterdir())
    assert (tmp_path / ONE).exists()


@pytest.mark.parametrize(
    "hidden",
    ["topic=a/_date=2024-01-01/x", "topic=a/.x.crc", "topic=a/date=2024-01-01/_x", "topic=a/.d/x"],
)
def test_files_that_readers_skip_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    source, lake = tmp_path / "logs", tmp_path / "lake"
    partition(source, batch(0, 1, timestamp=DAY), "a-0")
    exported(monkeypatch, source, lake)
    path = lake / hidden
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"no Parquet")
    partition(source, batch(2, timestamp=DAY), "a-0", 2)
    exported(monkeypatch, source, lake)
    assert [row[2] for row in archived(lake)] == [0, 1, 2]
    (lake / "topic=a" / "x.y_z").write_bytes(b"no Parquet")
    with pytest.raises(JobError, match=r"topic=a/x\.y_z"):
        exported(monkeypatch, source, lake)


def test_unmoved_files_of_killed_runs_are_removed(tmp_path: Path) -> None:
    notes = DirectoryNotes(tmp_path)
    staged(notes, ONE)
    (tmp_path / "running").mkdir()
    DirectoryNotes(tmp_path).remove_lost()
    assert [one.name for one in tmp_path.iterdir()] == ["running"]


def test_a_run_that_fails_leaves_nothing_in_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks have written their files."""
    partition(tmp_path / "logs", batch(0, 1, timestamp=DAY), "a-0")
    logs, target = chosen([str(tmp_path / "logs")], ()), tmp_path / "lake"
    without_spark(monkeypatch)
    monkeypatch.setattr(export_directory, "archive_of", lambda *_: None)
    monkeypatch.setattr(export_directory, "counts", lambda _, written: written)
    settings = Settings(past_high_watermark=True)
    written: list[Path] = []

    def stopped(*given: Any) -> Any:
        in_process(*given)
        written.extend(target.rglob("*.parquet"))
        raise JobError("Spark has stopped")

    with monkeypatch.context() as patched:
        patched.setattr(export_stored, "run_tasks", stopped)
        with pytest.raises(JobError, match="Spark has stopped"):
            add_to(SESSION, logs, target, settings, no_step)
    assert len(written) == 1
    assert not [*target.rglob("*")]
    add_to(SESSION, logs, target, settings, no_step)
    assert [row[:3] for row in archived(target)] == [("a", 0, 0), ("a", 0, 1)]
    assert not [*target.glob(f"{STAGING}*")]
