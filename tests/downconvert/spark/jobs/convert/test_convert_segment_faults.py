"""A machine that dies, a full disk, and two attempts at once: no half segment has its name."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert.spark.jobs.convert.convert_segment import (
    WORK_PREFIX,
    convert_segment,
    remove_leftovers,
)
from downconvert.spark.jobs.convert.manifest import Entry, digest_of, is_true, note_path, read_note
from downconvert.storage import DiskFullError
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed
from downconvert.storage.disk.files import DISK, Disk
from tests.downconvert.storage.logs import UnsyncedDisk

from .converting import NAME, files, task


class _Renames(UnsyncedDisk):
    """Notes the paths that files get."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def rename(self, source: Path, target: Path) -> None:
        self.paths.append(target)
        super().rename(source, target)


def test_a_log_gets_its_name_after_its_indexes_and_before_its_note(source: Path) -> None:
    disk = _Renames()
    convert_segment(task(source), attempt="1", files=disk)
    names = [path.name for path in disk.paths if path.parent == source.with_name("out-0")]
    assert len(names) > 2
    assert names[-2:] == [NAME, note_path(source, 0).name]


@pytest.mark.parametrize("was_converted", [False, True])
def test_a_machine_may_die_at_any_time(source: Path, tmp_path: Path, was_converted: bool) -> None:
    """was_converted: to another format, by an earlier run."""
    expected = convert_segment(task(source), attempt="0", files=DISK)
    shutil.rmtree(source.with_name("out-0"))
    before = None
    count = 0
    for dies_at in range(1, 1000):
        if was_converted:
            shutil.rmtree(source.with_name("out-0"), ignore_errors=True)
            before = convert_segment(task(source, 0), attempt="0", files=DISK)
        disk = FaultyDisk(source.parent, dies_at=dies_at)
        try:
            convert_segment(task(source), attempt="1", files=disk)
        except Killed:
            count += 1
        else:
            break
        found = tmp_path.with_name(f"{tmp_path.name}-{dies_at}")
        found.mkdir()
        disk.survivors(found)
        target = found / "out-0"
        if (target / NAME).exists():
            made = digest_of(target / NAME)
            assert made in {one.target_digest for one in (before, expected) if one is not None}
        note = read_note(target, 0)
        if note is not None:
            assert is_true(note, target)
    assert count > 20
    remove_leftovers(source.with_name("out-0"))
    assert not list(source.with_name("out-0").glob(f"{WORK_PREFIX}*"))


@pytest.mark.parametrize("to_magic", [1, 2])
def test_a_full_disk_leaves_no_incomplete_file(source: Path, to_magic: int) -> None:
    target = source.with_name("out-0")
    count = 0
    for full_from in range(1, 1000):
        disk = FaultyDisk(source.parent, full_from=full_from)
        try:
            convert_segment(task(source, to_magic), attempt="1", files=disk)
        except DiskFullError:
            count += 1
        else:
            break
        found = files(target) if target.exists() else {}
        assert not any(name.startswith(WORK_PREFIX) for name in found)
        if NAME in found:  # its note found no room: the next run does it again
            assert read_note(target, 0) is None
    assert count > 10
    note = read_note(target, 0)
    assert note is not None
    assert is_true(note, target)


class Interrupted(Disk):
    """A disk that calls a function before its `at`th renaming or making of a directory."""

    def __init__(self, at: int, what: Callable[[], object]) -> None:
        self.left = at
        self._what = what

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            self._what()

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def make_directory(self, path: Path) -> None:
        self._step()
        super().make_directory(path)


@pytest.mark.parametrize("at", range(1, 8))
def test_two_attempts_at_once_do_not_disturb_each_other(source: Path, at: int) -> None:
    others: list[Entry] = []

    def other() -> None:
        others.append(convert_segment(task(source), attempt="2", files=DISK))

    disk = Interrupted(at, other)
    entry = convert_segment(task(source), attempt="1", files=disk)
    assert disk.left <= 0
    assert [one.target_digest for one in others] == [entry.target_digest]
    target = source.with_name("out-0")
    assert is_true(entry, target)
    assert sorted(files(target)) == sorted(
        [NAME, "00000000000000000000.index", "00000000000000000000.timeindex",
         note_path(target, 0).name]
    )  # fmt: skip
    assert convert_segment(task(source), attempt="3", files=DISK).status == "kept"
