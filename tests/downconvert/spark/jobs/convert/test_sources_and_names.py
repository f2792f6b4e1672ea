"""Which sources are converted again, and in which order the files of a segment get their names.

Not here: all else that may happen to a conversion (test_convert_segment.py)."""

import os
from pathlib import Path

import pytest

from downconvert.spark.jobs.convert.convert_segment import Task, convert_segment
from downconvert.spark.jobs.convert.manifest import note_path
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.storage.names import Kind, file_name
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
    """Whoever finds the log finds all that belongs to it."""
    named: list[str] = []

    class Noting(UnsyncedDisk):
        def rename(self, source: Path, target: Path) -> None:
            if target.parent.name == "out-0":
                named.append(target.name)
            super().rename(source, target)

    convert_segment(task, attempt="1", files=Noting())
    assert named[-2:] == [NAME, note_path(Path(task.source), 0).name]
    assert set(named[:-2]) >= {file_name(0, kind) for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX)}
