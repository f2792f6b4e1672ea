"""After a disk has failed, nothing is written to it, and data that may be lost does not count as
flushed."""

import logging
import os
from errno import EDQUOT, EIO
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from downconvert.storage import DiskFullError, Log, LogDir, LogDirOfflineError, TopicPartition
from downconvert.storage.checkpoints.checkpoint import read_offsets
from downconvert.storage.disk import fence
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.fence import FencedFiles
from downconvert.storage.disk.files import Disk, DiskFile, WritableFile
from downconvert.storage.names import CLEAN_SHUTDOWN, RECOVERY_POINTS
from records.kernel import Buffer
from records.units import MiB
from tests.downconvert.storage.logs import UNSYNCED, UnsyncedDisk, UnsyncedFile, batch, offsets

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
BIG: Final = 10_000  # bytes: more than a page


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    (tmp_path / "disk").mkdir()
    with LogDir.open(tmp_path / "disk", writable=True) as log_dir:
        for partition in (ONE, OTHER):
            log_dir.logs.create(partition).writer.append(batch(0, size=BIG))
    return FaultyDisk(tmp_path / "disk")


def opened(disk: FaultyDisk) -> tuple[LogDir, Log]:
    log_dir = LogDir.open(disk.root, writable=True, files=disk)
    return log_dir, log_dir.logs[ONE]


def test_data_lost_by_a_failed_flush_never_counts_as_flushed(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    log_dir, log = opened(disk)
    log.writer.append(batch(1, size=BIG))
    disk.fail_next("sync")
    with pytest.raises(LogDirOfflineError, match="Input/output error"):
        log.writer.flush()
    for change in (
        log.writer.flush,  # which the disk would say has worked
        log.writer.roll,
        lambda: log.writer.append(batch(2)),
        lambda: log.writer.truncate_to(0),
        lambda: log_dir.logs[OTHER].writer.append(batch(1)),
        lambda: log_dir.logs.create(TopicPartition("new", 0)),
        lambda: log_dir.logs.delete(OTHER),
    ):
        with pytest.raises(LogDirOfflineError):
            change()
    assert log.writer.flushed_offset == 1
    assert log.offline_reason == log_dir.offline_reason
    log_dir.close()  # a broker ends as it should
    assert not (disk.root / CLEAN_SHUTDOWN).exists()
    assert read_offsets(disk.root / RECOVERY_POINTS)[ONE] == 1
    left = tmp_path / "left"
    left.mkdir()
    disk.survivors(left)
    with LogDir.open(left, writable=True) as log_dir:
        assert offsets(log_dir.logs[ONE].records()) in ([0], [0, 1])  # it is looked at


def test_a_log_opened_alone_goes_offline_too_and_can_be_closed(disk: FaultyDisk) -> None:
    log = Log.open(disk.root / str(ONE), writable=True, files=disk)
    log.writer.append(batch(1))
    disk.fail_next("sync")
    with pytest.raises(LogDirOfflineError):
        log.writer.flush()
    log.close()
    assert not (disk.root / CLEAN_SHUTDOWN).exists()
    Log.open(disk.root / str(ONE), writable=True).close()  # the lock is free, and it is a way back


def test_a_write_that_fails_may_be_torn(disk: FaultyDisk) -> None:
    log_dir, log = opened(disk)
    disk.fail_next("write")
    with pytest.raises(LogDirOfflineError):
        log.writer.append(batch(1))
    with pytest.raises(LogDirOfflineError):
        log.writer.append(batch(1))
    assert log.end_offset == 1
    log_dir.close()
    with LogDir.open(disk.root, writable=True) as log_dir:
        assert offsets(log_dir.logs[ONE].records()) == [0]


def test_nothing_is_written_after_a_partial_write_that_cannot_be_undone(
    disk: FaultyDisk,
) -> None:
    log_dir, log = opened(disk)
    disk.fill(is_full=True)
    disk.fail_next("truncate")
    with pytest.raises(LogDirOfflineError):
        log.writer.append(batch(1))
    disk.fill(is_full=False)
    with pytest.raises(LogDirOfflineError):
        log.writer.append(batch(1))
    log_dir.close()


def test_a_flush_that_fails_during_close_is_reported(disk: FaultyDisk) -> None:
    log_dir, log = opened(disk)
    log.writer.append(batch(1))
    disk.fail_next("sync")
    with pytest.raises(LogDirOfflineError):
        log_dir.close()
    assert not (disk.root / CLEAN_SHUTDOWN).exists()
    LogDir.open(disk.root, writable=True).close()


def test_a_full_disk_is_logged_once_and_does_not_go_offline(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log_dir, log = opened(disk)
    disk.fill(is_full=True)
    with caplog.at_level(logging.WARNING, "storage"):
        for _ in range(5):
            with pytest.raises(DiskFullError):
                log.writer.append(batch(1))
        assert len(caplog.records) == 1
        assert log_dir.full_count == 5
        disk.fill(is_full=False)
        log.writer.append(batch(1))
        assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    assert log.offline_reason is None
    log_dir.close()
    assert (disk.root / CLEAN_SHUTDOWN).exists()


class LateFile(DiskFile):
    """One of a file system that finds out late that it has no room: NFS with a quota, say."""

    refused = ""

    def sync(self) -> None:
        if self.refused == "sync":
            raise DiskFullError(str(self.path))

    def truncate(self, size: int) -> None:
        if self.refused == "truncate" and size < os.fstat(self.fileno()).st_size:
            raise DiskFullError(str(self.path))
        super().truncate(size)

    def write_at(self, data: Buffer, position: int) -> None:
        if self.refused == "truncate":
            super().write_at(memoryview(data)[:3], position)
            raise DiskFullError(str(self.path))
        super().write_at(data, position)

    def close(self) -> None:
        is_open = self.fileno() >= 0
        super().close()
        if self.refused == "close" and is_open:
            raise OSError(EDQUOT, "Disk quota exceeded", str(self.path))


class LateDisk(UnsyncedDisk):
    def open(self, path: Path) -> WritableFile:
        return LateFile(path)


@pytest.mark.parametrize("refused", ["sync", "truncate", "close"])
def test_a_full_disk_that_loses_data_goes_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """A sync that finds no room may have dropped what it was to write, and so may a close. A
    truncation that finds none leaves what it was to take back."""
    with LogDir.open(tmp_path, writable=True, files=LateDisk()) as log_dir:
        log = log_dir.logs.create(ONE)
        log.writer.append(batch(0))
        monkeypatch.setattr(LateFile, "refused", refused)
        append = partial(log.writer.append, batch(1))
        change = {"sync": log.writer.flush, "close": log.writer.release}.get(refused, append)
        with pytest.raises(LogDirOfflineError):
            change()
        monkeypatch.setattr(LateFile, "refused", "")
        for change in (log.writer.flush, append):
            with pytest.raises(LogDirOfflineError):
                change()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_free_space_is_detected_without_writers(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log_dir, log = opened(disk)
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError):
        log.writer.append(batch(1))
    before = sorted(path.name for path in disk.root.iterdir())
    log_dir.look_for_room()
    assert log_dir.full_file is not None
    disk.fill(is_full=False)
    with caplog.at_level(logging.WARNING, "storage"):
        log_dir.look_for_room()
    assert log_dir.full_file is None
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    assert sorted(path.name for path in disk.root.iterdir()) == before
    log_dir.close()


def test_the_probe_is_as_large_as_the_failed_write(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir, log = opened(disk)
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError):
        log.writer.append(batch(1, size=BIG))
    disk.fill(is_full=False)
    written = list[tuple[int, int]]()
    write_at = DiskFile.write_at

    def note(file: DiskFile, data: Buffer, position: int) -> None:
        written.append((position, memoryview(data).nbytes))
        write_at(file, data, position)

    monkeypatch.setattr(DiskFile, "write_at", note)
    log_dir.look_for_room()
    ((position, size),) = written
    assert (position, size >= BIG) == (0, True)
    log_dir.close()


def test_space_for_one_file_or_fewer_bytes_does_not_mean_space_for_another(tmp_path: Path) -> None:
    files = FencedFiles(tmp_path, UNSYNCED)
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for path, size in ((first, 100), (second, 50)):
        files.has_no_room(DiskFullError(str(path)), size)
    files.has_room(third, 1000)
    files.has_room(first, 99)
    assert files.full == str(first)
    files.has_room(first, 100)
    assert files.full == str(second)
    files.has_room(second, 51)
    assert files.full is None
    files.has_room(second, 51)


def test_room_that_another_thread_finds_first_fails_no_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request for /readyz may look for room while a file is written again."""

    class Size(int):
        def __ge__(self, other: int) -> bool:
            files.look_for_room()  # as the other thread would
            return int(self) >= other

    files = FencedFiles(tmp_path, UNSYNCED)
    files.has_no_room(DiskFullError(str(tmp_path / "file")), 100)
    caplog.clear()
    files.has_room(tmp_path / "file", Size(100))
    assert files.full is None
    assert len(caplog.records) == 1


def test_nobody_looks_for_room_on_a_disk_that_has_failed(tmp_path: Path) -> None:
    files = FencedFiles(tmp_path, UNSYNCED)
    files.has_no_room(DiskFullError(str(tmp_path / "file")), 100)
    files.fence(tmp_path / "file", OSError(EIO, "Input/output error"))
    files.look_for_room()
    assert files.full == str(tmp_path / "file")


class Full(UnsyncedDisk):
    """A disk on which every operation finds no room."""

    class File(UnsyncedFile):
        def truncate(self, size: int) -> None:
            raise DiskFullError(f"{self.path} to {size} bytes")

        def sync(self) -> None:
            raise DiskFullError(str(self.path))

    def open(self, path: Path) -> WritableFile:
        return self.File(path)

    def sync_directory(self, path: Path) -> None:
        raise DiskFullError(str(path))


def test_a_sync_that_finds_no_room_is_a_failure_as_any_other(tmp_path: Path) -> None:
    """A failed sync of a file or of names may have lost them."""
    for sync in (
        lambda files: files.open(tmp_path / "file").sync(),
        lambda files: files.sync_directory(tmp_path),
    ):
        files = FencedFiles(tmp_path, Full())
        with pytest.raises(LogDirOfflineError):
            sync(files)
        assert files.reason is not None
        with pytest.raises(LogDirOfflineError):
            files.open(tmp_path / "other")


@pytest.mark.parametrize(("size", "is_fenced"), [(99, True), (100, False), (101, False)])
def test_a_cut_without_room_is_a_failure_and_an_extension_is_not(
    tmp_path: Path, size: int, is_fenced: bool
) -> None:
    """The bytes that were to be cut off are still there."""
    (tmp_path / "file").write_bytes(bytes(100))
    files = FencedFiles(tmp_path, Full())
    file = files.open(tmp_path / "file")
    with pytest.raises(LogDirOfflineError if is_fenced else DiskFullError):
        file.truncate(size)
    assert (files.reason is not None) == is_fenced
    assert files.full_count == (not is_fenced)
    file.close()


def test_the_first_failure_is_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Several threads may find at once that the disk fails."""
    fenced = FencedFiles(tmp_path, UNSYNCED)
    for number in range(2):
        fenced.fence(tmp_path / f"file {number}", OSError(5, f"failure {number}"))
    assert fenced.reason == f"{tmp_path / 'file 0'}: failure 0"
    assert len(caplog.records) == 1


def test_names_in_a_directory_that_is_gone_need_no_sync(tmp_path: Path) -> None:
    """A topic may be deleted while its names are synced. The disk has not failed."""
    files = FencedFiles(tmp_path, Disk())
    with pytest.raises(FileNotFoundError):
        files.sync_directory(tmp_path / "gone")
    assert files.reason is None
    files.sync_directory(tmp_path)


def test_a_file_without_room_stays_known_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the size of its last write."""
    monkeypatch.setattr(fence, "FULL_MAX", 2)
    files = FencedFiles(tmp_path, UNSYNCED)
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for path, size in ((first, 10), (second, 50), (third, 99), (first, 30)):
        files.has_no_room(DiskFullError(str(path)), size)
    files.has_room(second, 50)
    files.has_room(first, 29)
    assert files.full == str(first)
    files.has_room(first, 30)
    assert files.full is None  # the third was one too many
    assert files.full_count == 4


@pytest.mark.parametrize(("size", "probe"), [(0, 1), (1, 1), (MiB, MiB), (MiB + 1, MiB)])
def test_a_probe_has_at_least_a_byte_and_at_most_a_mebibyte(
    tmp_path: Path, size: int, probe: int
) -> None:
    written: list[int] = []

    class Noting(UnsyncedFile):
        def write_at(self, data: Buffer, position: int) -> None:
            written.append(len(data))
            super().write_at(data, position)

    class NotingDisk(UnsyncedDisk):
        def open(self, path: Path) -> WritableFile:
            return Noting(path)

    files = FencedFiles(tmp_path, NotingDisk())
    files.has_no_room(DiskFullError(str(tmp_path / "file")), size)
    files.look_for_room()
    assert (written, files.full) == ([probe], None)
    assert list(tmp_path.iterdir()) == []
