"""Which sources are converted again, which other files go with a segment, and in which order the
files of a segment get their names.

Not here: all else that may happen to a conversion (test_convert_segment.py)."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from downconvert.spark.jobs.convert.convert_segment import Task, convert_segment
from downconvert.spark.jobs.convert.manifest import note_path
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.storage.disk.files import WritableFile
from downconvert.storage.names import LEADER_EPOCHS, PARTITION_METADATA, Kind, file_name
from records.formats import V2
from tests.downconvert.storage.logs import UNSYNCED, UnsyncedDisk, batch, segment

NAME = file_name(0, Kind.LOG)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    source = segment(tmp_path / "t-0", 0, *(batch(n, magic=1) for n in range(9))).path().parent
    return Task(
        topic="t",
        partition=0,
        base_offset=0,
        source=str(source),
        target=str(tmp_path / "out-0"),
        settings=Settings(to_magic=2),
    )


def test_a_source_that_was_changed_and_is_as_large_as_before_is_converted_again(task: Task) -> None:
    path = Path(task.source) / NAME
    before = path.stat()
    assert convert_segment(task, attempt="1", files=UNSYNCED).status == "converted"
    path.write_bytes(b"".join(batch(n, magic=1, timestamp=7) for n in range(9)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    assert convert_segment(task, attempt="2", files=UNSYNCED).status == "converted"
    assert convert_segment(task, attempt="3", files=UNSYNCED).status == "kept"


def test_a_log_gets_its_name_after_its_other_files_and_before_its_note(task: Task) -> None:
    """A reader that finds the log finds its indexes, too."""
    named: list[str] = []

    class Noting(UnsyncedDisk):
        def rename(self, source: Path, target: Path) -> None:
            if target.parent.name == "out-0":
                named.append(target.name)
            super().rename(source, target)

    convert_segment(task, attempt="1", files=Noting())
    assert named[-2:] == [NAME, note_path(Path(task.source), 0).name]
    assert set(named[:-2]) >= {file_name(0, kind) for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX)}


@pytest.mark.parametrize("to_magic", [1, 2])
def test_each_of_the_other_files_goes_with_one_segment(tmp_path: Path, to_magic: int) -> None:
    """v0 and v1 have neither transactions nor producers nor leader epochs."""
    snapshots = (5, 10, 15, 20, 25, 30, 35)
    for base in (10, 20, 30):
        source = segment(tmp_path / "t-0", base, batch(base, base + 9)).path().parent
        (source / file_name(base, Kind.TRANSACTION_INDEX)).write_bytes(b"")
    for offset in snapshots:
        (source / file_name(offset, Kind.SNAPSHOT)).write_bytes(b"%d" % offset)
    for name in (LEADER_EPOCHS, PARTITION_METADATA):
        (source / name).write_text("some")
    found = {}
    for base in (10, 20, 30):
        target = tmp_path / f"out-{base}"
        convert_segment(
            Task(
                topic="t",
                partition=0,
                base_offset=base,
                source=str(source),
                target=str(target),
                settings=Settings(to_magic=to_magic),
            ),
            attempt="1",
            files=UNSYNCED,
        )
        made = {Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX}
        without = {note_path(target, base).name, *(file_name(base, kind) for kind in made)}
        found[base] = {path.name for path in target.iterdir()} - without
    if to_magic < V2:
        assert found == {10: {PARTITION_METADATA}, 20: set(), 30: set()}
        return
    begin = {LEADER_EPOCHS, PARTITION_METADATA}
    for base, noted, others in (
        (10, snapshots[:3], begin),
        (20, snapshots[3:5], set()),
        (30, snapshots[5:], set()),
    ):
        names = {file_name(offset, Kind.SNAPSHOT) for offset in noted}
        assert found[base] == {file_name(base, Kind.TRANSACTION_INDEX), *names, *others}


class Full(UnsyncedDisk):
    """A disk that fails as a log is written."""

    def open(self, path: Path) -> WritableFile:
        if path.name == NAME:
            raise OSError(5, "the disk is broken")
        return super().open(path)


def test_a_conversion_that_the_disk_ends_leaves_no_file_and_no_note_of_an_earlier_source(
    task: Task,
) -> None:
    path, out = Path(task.source) / NAME, Path(task.target)
    convert_segment(task, attempt="1", files=UNSYNCED)
    path.write_bytes(batch(3, magic=1))
    assert note_path(out, 0).exists()
    with pytest.raises(OSError, match="the disk is broken"):
        convert_segment(task, attempt="2", files=Full())
    assert not note_path(out, 0).exists()
    assert not list(out.glob(".*"))


@pytest.mark.parametrize("to_magic", [1, 2])
def test_damage_in_the_last_segment_is_only_of_that_one(task: Task, to_magic: int) -> None:
    """It hides what follows it, and whether more of the log does."""
    wrong = bytearray(batch(31, magic=1))
    wrong[16] = 9  # its magic
    segment(Path(task.source), 30, batch(30, magic=1), bytes(wrong), batch(32, magic=1))
    tasks = [replace(task, settings=Settings(to_magic=to_magic), base_offset=at) for at in (0, 30)]
    first, last = (convert_segment(one, attempt="1", files=UNSYNCED) for one in tasks)
    assert (first.status, first.error) == ("converted", "")
    assert last.status == "failed"
    assert last.error.startswith(f"{task.source}/{file_name(30, Kind.LOG)}: ")
    assert "unknown magic" in last.error
    assert not (Path(task.target) / file_name(30, Kind.LOG)).exists()
