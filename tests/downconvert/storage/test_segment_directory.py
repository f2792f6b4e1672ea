"""The files of a log: the order of removals and renames, and the result on a full disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.storage import DiskFullError, LogDirOfflineError
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.fence import FencedFiles
from downconvert.storage.disk.files import Files
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.names import Kind, State, file_name
from downconvert.storage.producers.producer_state import ProducerStates
from downconvert.storage.segment_directory import SegmentDirectory
from downconvert.storage.segments.segment import Segment
from downconvert.storage.segments.segments import Segments

from .logs import UNSYNCED, UnsyncedDisk, batch, indexed_segment

BASES = (0, 2, 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Segments of two records each."""
    for base in BASES:
        indexed_segment(tmp_path, base, batch(base, base + 1))
    return tmp_path


def opened(path: Path, files: Files = UNSYNCED) -> SegmentDirectory:
    open_files = OpenFiles()
    segments = Segments(Segment(path, base, open_files) for base in BASES)
    found = SegmentDirectory(path, segments, [], FencedFiles(path, files), open_files)
    for base in BASES:
        found.write_snapshot(base, ProducerStates())
    return found


def bases(directory: SegmentDirectory) -> list[int]:
    return [segment.base_offset for segment in directory.segments]


def names(path: Path, base: int) -> Iterator[str]:
    return (file.name for file in path.glob(f"{base:020}*"))


def first_offsets(directory: SegmentDirectory) -> list[int]:
    """The base offsets of the batches in the first segment."""
    first = directory.segments[0]
    return [header.base_offset for header in first.slice(0, first.size).batches()]


def cleaned(path: Path, base: int, data: bytes) -> Segment:
    """A segment as compaction has written and flushed it."""
    made = path / "elsewhere"
    indexed_segment(made, base, data)
    for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        target = path / file_name(base, kind, State.CLEANED)
        (made / file_name(base, kind)).rename(target)
    return Segment(path, base, OpenFiles(), State.CLEANED)


def test_a_removed_segment_leaves_no_files(path: Path) -> None:
    directory = opened(path)
    directory.remove(directory.segments[0])
    assert (bases(directory), directory.snapshots) == ([2, 4], [2, 4])
    assert list(names(path, 0)) == []


def test_snapshots_above_an_offset_are_removed(path: Path) -> None:
    directory = opened(path)
    directory.remove_snapshots(above=2)
    assert directory.snapshots == [0, 2]
    assert not (path / file_name(4, Kind.SNAPSHOT)).exists()
    directory.remove_snapshots(above=-1)
    assert directory.snapshots == []


def test_one_segment_replaces_several(path: Path) -> None:
    directory = opened(path)
    directory.replace(list(directory.segments)[:2], cleaned(path, 0, batch(3)))
    assert (bases(directory), directory.snapshots) == ([0, 4], [0, 4])
    assert directory.segments[0].state is State.LIVE
    assert first_offsets(directory) == [3]
    assert list(names(path, 2)) == []
    assert not [*path.glob("*.cleaned"), *path.glob("*.swap")]


@pytest.mark.parametrize("full_in", range(4))
def test_on_a_full_disk_the_log_has_the_old_or_the_new_records(path: Path, full_in: int) -> None:
    """New names need room; the old ones are removed in between."""
    replacement = cleaned(path, 0, batch(3))
    disk = FaultyDisk(path)
    directory = opened(path, disk)
    disk.fill_in(full_in)
    with pytest.raises(DiskFullError):
        directory.replace(list(directory.segments)[:2], replacement)
    is_new = bases(directory) == [0, 4]
    assert is_new or bases(directory) == list(BASES)
    assert first_offsets(directory) == ([3] if is_new else [0])


class Noting(UnsyncedDisk):
    """Notes the names that change, and may fail to remove one."""

    def __init__(self, fails: str = "") -> None:
        super().__init__()
        self.done: list[str] = []
        self._fails = fails

    def rename(self, source: Path, target: Path) -> None:
        self.done.append(f"{source.name} to {target.name}")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        if path.exists():
            self.done.append(path.name)
        if path.name == self._fails:
            raise PermissionError(13, "Permission denied", str(path))
        super().remove(path)


def test_a_log_is_renamed_after_its_indexes_and_removed_before_them(path: Path) -> None:
    """A crash in between leaves a log with its indexes, or indexes that are leftovers."""
    replacement = cleaned(path, 0, batch(3))
    disk = Noting()
    directory = opened(path, disk)
    disk.done.clear()
    directory.replace(list(directory.segments)[:2], replacement)
    logs = [
        at for at, what in enumerate(disk.done) if what.partition(" ")[0].split(".")[1] == "log"
    ]
    to_swap, _, of_second, to_live = logs
    assert all(".swap" in what for what in disk.done[: to_swap + 1])
    assert disk.done[of_second + 1].startswith(f"{2:020}.")
    for base in (0, 2):  # removed: the log comes first
        removed = [
            what for what in disk.done if what.startswith(f"{base:020}.") and " " not in what
        ]
        assert removed[0] == file_name(base, Kind.LOG)
        assert len(removed) >= 3
    assert to_live == len(disk.done) - 1
    assert all(what.startswith(f"{0:020}.") for what in disk.done[to_live - 2 :])


def test_a_replacement_without_its_final_names_gets_them_with_the_next(path: Path) -> None:
    first, second = cleaned(path, 0, batch(1)), cleaned(path, 2, batch(3))
    disk = FaultyDisk(path)
    directory = opened(path, disk)
    disk.fill_for(path / file_name(0, Kind.LOG))
    with pytest.raises(DiskFullError):
        directory.replace([directory.segments[0]], first)
    assert (path / file_name(0, Kind.LOG, State.SWAP)).exists()
    assert first_offsets(directory) == [1]
    disk.fill(is_full=False)
    directory.replace([directory.segments[1]], second)
    assert not list(path.glob("*.swap"))
    assert [segment.state for segment in directory.segments] == [State.LIVE] * 3
    assert first_offsets(directory) == [1]


def test_a_replacement_without_its_final_names_may_be_replaced_itself(path: Path) -> None:
    class Full(UnsyncedDisk):
        is_full = True

        def rename(self, source: Path, target: Path) -> None:
            if self.is_full and target.suffix != State.SWAP:
                raise DiskFullError(str(target))
            super().rename(source, target)

    disk = Full()
    disk.is_full = False
    directory = opened(path, disk)
    disk.is_full = True
    replacement = cleaned(path, 0, batch(1))
    with pytest.raises(DiskFullError):
        directory.replace(list(directory.segments)[:2], replacement)
    replacement = cleaned(path, 0, batch(0))
    disk.is_full = False
    directory.replace([directory.segments[0]], replacement)
    assert (bases(directory), first_offsets(directory)) == ([0, 4], [0])
    assert (path / file_name(0, Kind.LOG)).read_bytes() == batch(0)
    assert not list(path.glob("*.swap"))


def test_a_segment_that_cannot_be_removed_while_it_is_replaced_ends_all_writing(path: Path) -> None:
    """On the disk are both, and recovery completes it. In memory there would be a gap."""
    replacement = cleaned(path, 0, batch(3))
    disk = Noting(fails=file_name(2, Kind.LOG))
    directory = opened(path, disk)
    with pytest.raises(LogDirOfflineError):
        directory.replace(list(directory.segments)[:2], replacement)
    with pytest.raises(LogDirOfflineError):
        directory.sync()
