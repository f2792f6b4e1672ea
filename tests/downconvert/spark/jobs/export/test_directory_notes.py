"""Runs that write to one directory at a time: which notes are of others, which files are read, and
in which order names are on disk.

Not here: names of directories, runs that died (test_export_directory.py)."""

from pathlib import Path

import pytest

from downconvert.spark.jobs.export import export_directory
from downconvert.spark.jobs.export.export_directory import STAGING, DirectoryNotes
from downconvert.spark.jobs.export.export_manifest import FOLDER, SUFFIX
from downconvert.spark.jobs.jobs import JobError
from tests.downconvert.spark.exporting import exported
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import UnsyncedDisk, batch

from .test_export_directory import DAY, ONE, TWO, A, note, staged


def test_a_note_that_was_there_when_the_target_was_read_is_of_no_other_run(tmp_path: Path) -> None:
    notes, other, late = (DirectoryNotes(tmp_path) for _ in range(3))
    other.write(note(ONE), staged(other, ONE))
    there = notes.read("read_uncommitted")
    notes.write(note(*there.files, TWO, end=5), staged(notes, TWO))
    notes.write(note(*there.files, TWO, end=6), [])  # nor is its own
    with pytest.raises(JobError, match=f"^{tmp_path}: another export has written to it meanwhile"):
        late.write(note("x", end=9), [])
    assert DirectoryNotes(tmp_path).read("read_uncommitted").ranges == {A: [(0, 6)]}


def test_a_run_whose_files_another_one_has_removed_is_not_noted(tmp_path: Path) -> None:
    notes = DirectoryNotes(tmp_path)
    files = staged(notes, ONE, TWO)
    (notes.staging / TWO).unlink()
    with pytest.raises(JobError, match="the records of this run were not added; run it again"):
        notes.write(note(ONE, TWO), files)
    assert not (tmp_path / ONE).exists()
    assert DirectoryNotes(tmp_path).read("read_uncommitted").ranges == {}


def test_only_files_that_no_note_names_are_read(tmp_path: Path) -> None:
    notes = DirectoryNotes(tmp_path)
    notes.write(note(ONE), staged(notes, ONE))  # it is no Parquet file
    assert notes.unnoted(note(ONE)).held() == {}
    with pytest.raises(JobError, match=f"^{ONE} is not a file of an export, .*: move it elsewhere"):
        notes.unnoted(note(TWO))


def test_files_and_notes_are_on_disk_under_their_names_when_a_step_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is on disk once its directory is."""
    steps: list[tuple[str, str]] = []

    class Noting(UnsyncedDisk):
        def rename(self, source: Path, target: Path) -> None:
            if target.suffix in (".parquet", SUFFIX) and STAGING not in str(target):
                steps.append(("rename", target.parent.name))
            super().rename(source, target)

        def sync_directory(self, path: Path) -> None:
            steps.append(("sync", path.name))
            super().sync_directory(path)

    partition(tmp_path / "logs", batch(0, 1, timestamp=DAY), "a-0")
    partition(tmp_path / "logs", batch(2, 3, timestamp=3 * DAY), "a-0", 2)
    exported(monkeypatch, tmp_path / "logs", tmp_path / "lake")
    monkeypatch.setattr(export_directory, "DISK", Noting())
    notes = DirectoryNotes(tmp_path / "lake")
    notes.remove(A, 1, 3)
    for day in ("date=1970-01-02", "date=1970-01-04"):
        after = steps[steps.index(("rename", day)) + 1 :]
        assert after[0] == ("sync", day)
    steps.clear()
    notes.read("read_uncommitted")
    notes.write(note(end=1), [])
    assert steps[-2:] == [("rename", FOLDER), ("sync", FOLDER)]
