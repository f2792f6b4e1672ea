"""Each change of a directory is synced when it returns: the contents of files, and their names.

The disk here keeps everything and notes what was not synced. So the order in which a disk loses
changes is of no importance, unlike in the tests that let a machine die (faulty_disk.py)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert.storage import Log, LogConfig, LogDir, TopicPartition
from downconvert.storage.cleaning.compact_log import compact
from downconvert.storage.cleaning.upgrade_log import upgrade, upgrade_in_place
from downconvert.storage.disk.files import Disk, DiskFile, WritableFile
from downconvert.storage.names import State
from records import Record, TimestampType
from records.batches.builder import build
from records.formats import V1

from .logs import UNSYNCED, batch, indexed_segment

PARTITION = TopicPartition("topic", 0)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, segment_index_bytes=480)


class NotingDisk(Disk):
    """Notes the names, and the files with contents, that were not synced. Names of indexes do not
    count: recovery makes missing ones again, and removes those that are left."""

    def __init__(self) -> None:
        self.names: set[Path] = set()  # that were made, removed or changed
        self.files: set[Path] = set()
        self.removed_early: list[str] = []  # files that were removed before a swap was synced

    @property
    def unsynced(self) -> set[str]:
        names = {path for path in self.names if path.suffix not in (".index", ".timeindex")}
        return {path.name for path in names | {path for path in self.files if path.exists()}}

    def open(self, path: Path) -> WritableFile:
        if not path.exists():
            self.names.add(path)
        return NotingFile(path, self)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.names |= {source, target}
        if source in self.files:
            self.files.add(target)

    def remove(self, path: Path) -> None:
        if path.exists():
            self.names.add(path)
            if any(one.suffix == State.SWAP and one.exists() for one in self.names):
                self.removed_early.append(path.name)
        super().remove(path)

    def make_directory(self, path: Path) -> None:
        if not path.exists():
            self.names.add(path)
        super().make_directory(path)

    def remove_directory(self, path: Path) -> None:
        super().remove_directory(path)
        self.names = {one for one in self.names if path not in one.parents} | {path}

    def sync_directory(self, path: Path) -> None:
        self.names = {one for one in self.names if one.parent != path}


class NotingFile(DiskFile):
    def __init__(self, path: Path, disk: NotingDisk) -> None:
        super().__init__(path)
        self._disk = disk

    def write_at(self, data: object, position: int) -> None:
        super().write_at(data, position)  # type: ignore[arg-type]
        self._disk.files.add(self.path)

    def truncate(self, size: int) -> None:
        if any(self.path.read_bytes()[size:]):  # zeros after an index are of no importance
            self._disk.files.add(self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._disk.files.discard(self.path)


def fill(log: Log) -> None:
    """Several segments, with one key twice in each."""
    for offset in range(log.end_offset, log.end_offset + 24):
        record = Record(offset, 10 * offset, TimestampType.CREATE, b"%d" % (offset % 3), b"x" * 40)
        log.writer.append(build([record], magic=V1))


CHANGES: dict[str, Callable[[Log], object]] = {
    "a flush": lambda log: log.writer.flush(),
    "a release": lambda log: log.writer.release(),
    "a roll": lambda log: log.writer.roll(),
    "a truncation": lambda log: log.writer.truncate_to(log.end_offset - 1),
    "a truncation of segments": lambda log: log.writer.truncate_to(9),
    "a restart": lambda log: log.writer.truncate_fully_and_start_at(100),
    "a restart at the same offset": lambda log: log.writer.truncate_fully_and_start_at(0),
    "a deletion of records": lambda log: log.writer.delete_records(12),
    "a removal of segments": lambda log: log.writer.remove_oldest(2),
    "a removal of all segments": lambda log: log.writer.remove_oldest(len(log.segments)),
    "a new epoch": lambda log: log.writer.begin_epoch(7),
    "a cleaner's checkpoint": lambda log: log.writer.note_cleaner_point(5),
    "a compaction": lambda log: compact(log, CONFIG, now=1000),
    "a close": lambda log: log.close(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_synced_when_it_returns(tmp_path: Path, name: str) -> None:
    disk = NotingDisk()
    with LogDir.open(tmp_path, writable=True, config=CONFIG, files=disk) as log_dir:
        log = log_dir.logs.create(PARTITION)
        assert not disk.unsynced
        fill(log)
        if name not in ("a flush", "a release", "a roll", "a close"):
            log.writer.flush()
            assert not disk.unsynced
        CHANGES[name](log)
        assert not disk.unsynced
        assert not disk.removed_early


def test_new_and_deleted_partitions_are_synced(tmp_path: Path) -> None:
    disk = NotingDisk()
    with LogDir.open(tmp_path, writable=True, config=CONFIG, files=disk) as log_dir:
        assert not disk.unsynced
        log_dir.logs.create(PARTITION)
        assert not disk.unsynced
        log_dir.note_high_watermarks({PARTITION: 0})
        assert not disk.unsynced
        log_dir.logs.delete(PARTITION)
        # Files left under the new name are removed at the next start, at the latest.
        assert all(name.endswith("-delete") for name in disk.unsynced)


def test_a_partition_is_renamed_for_good_before_its_files_are_removed(tmp_path: Path) -> None:
    class Stopping(NotingDisk):
        is_stopping = False

        def remove(self, path: Path) -> None:
            if self.is_stopping and path.suffix == ".log":
                assert path.parent not in self.names
            super().remove(path)

    disk = Stopping()
    with LogDir.open(tmp_path, writable=True, config=CONFIG, files=disk) as log_dir:
        log_dir.logs.create(PARTITION)
        disk.is_stopping = True
        log_dir.logs.delete(PARTITION)


@pytest.mark.parametrize("left", ["a swap", "damage", "an empty directory"])
def test_a_recovery_is_synced(tmp_path: Path, left: str) -> None:
    path = tmp_path / str(PARTITION)
    path.mkdir()
    if left != "an empty directory":
        for base in (0, 10, 20):
            indexed_segment(path, base, *(batch(n) for n in range(base, base + 10)))
        (path / f"{5:020}.log.cleaned").touch()
    if left == "a swap":
        (path / f"{0:020}.log").rename(path / f"{0:020}.log.swap")
    if left == "damage":
        with (path / f"{10:020}.log").open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"\xff")
    disk = NotingDisk()
    log_dir = LogDir.open(tmp_path, writable=True, config=CONFIG, files=disk)
    log = log_dir.logs[PARTITION]
    assert log.end_offset == {"a swap": 30, "damage": 19, "an empty directory": 0}[left]
    assert bool(log.writer.recovery.set_aside) == (left == "damage")
    assert not disk.unsynced
    log_dir.close()


@pytest.mark.parametrize("in_place", [False, True])
def test_an_upgraded_directory_is_synced(tmp_path: Path, in_place: bool) -> None:
    source = tmp_path / "log"
    source.mkdir()
    with LogDir.open(source, writable=True, config=CONFIG, files=UNSYNCED) as log_dir:
        fill(log_dir.logs.create(PARTITION))
    disk = NotingDisk()
    if in_place:
        upgrade_in_place(source, config=CONFIG, files=disk)
    else:
        upgrade(source, tmp_path / "new", config=CONFIG, files=disk)
    assert not disk.unsynced
