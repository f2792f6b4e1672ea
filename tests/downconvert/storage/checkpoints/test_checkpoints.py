"""Logs share a directory's checkpoints, and are written by several threads."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from downconvert.storage import DiskFullError, TopicPartition
from downconvert.storage.checkpoints.checkpoint import read_offsets
from downconvert.storage.checkpoints.checkpoints import Checkpoints
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.files import WritableFile
from downconvert.storage.names import CLEANER_POINTS, LOG_STARTS, RECOVERY_POINTS
from tests.downconvert.storage.logs import UNSYNCED, UnsyncedDisk


def test_each_log_has_its_own_checkpoints_and_reads_them_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, UNSYNCED)
    one = checkpoints.of(TopicPartition("t", 1))
    one.set_recovery_point(3)
    one.set_start_offset(1)
    one.set_cleaner_point(2)
    again = Checkpoints(tmp_path, UNSYNCED)
    found = again.of(TopicPartition("t", 1))
    assert (found.recovery_point, found.start_offset, found.cleaner_point) == (3, 1, 2)
    assert again.of(TopicPartition("t", 0)).cleaner_point == 0
    again.forget(TopicPartition("t", 1))
    for name in (RECOVERY_POINTS, LOG_STARTS, CLEANER_POINTS):
        assert not read_offsets(tmp_path / name)


def test_threads_that_write_to_different_logs_lose_nothing_of_each_other(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, UNSYNCED)

    def work(number: int) -> None:
        mine = checkpoints.of(TopicPartition("t", number))
        for offset in range(1, 100):
            mine.set_recovery_point(offset)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    found = read_offsets(tmp_path / RECOVERY_POINTS)
    assert found == {TopicPartition("t", number): 99 for number in range(8)}


def test_a_file_is_written_once_for_each_change(tmp_path: Path) -> None:
    written: list[str] = []

    class Noting(UnsyncedDisk):
        def rename(self, source: Path, target: Path) -> None:
            written.append(target.name)
            super().rename(source, target)

    checkpoints = Checkpoints(tmp_path, Noting())
    with checkpoints.together():
        for number in range(3):
            checkpoints.of(TopicPartition("t", number)).set_recovery_point(5)
            checkpoints.of(TopicPartition("t", number)).set_start_offset(2)
        assert not written
    assert sorted(written) == sorted([RECOVERY_POINTS, LOG_STARTS])
    written.clear()
    checkpoints.forget(TopicPartition("t", 7))  # of which there is nothing
    checkpoints.of(TopicPartition("t", 1)).set_recovery_point(5)
    assert not written
    checkpoints.of(TopicPartition("t", 1)).set_recovery_point(6)
    assert written == [RECOVERY_POINTS]


def test_a_cleaner_point_is_lowered_and_never_raised_by_that(tmp_path: Path) -> None:
    mine = Checkpoints(tmp_path, UNSYNCED).of(TopicPartition("t", 0))
    mine.set_cleaner_point(5)
    mine.lower_cleaner_point(7)
    assert mine.cleaner_point == 5
    mine.lower_cleaner_point(3)
    assert mine.cleaner_point == 3


def test_an_offset_that_a_full_disk_refused_is_written_later(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    mine = Checkpoints(tmp_path, disk).of(TopicPartition("t", 0))
    mine.set_recovery_point(3)
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError):
        mine.set_recovery_point(5)
    assert mine.recovery_point == 3
    disk.fill(is_full=False)
    mine.set_recovery_point(5)
    assert read_offsets(tmp_path / RECOVERY_POINTS) == {TopicPartition("t", 0): 5}


def test_a_partition_that_a_full_disk_kept_is_forgotten_with_the_next_one(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    checkpoints = Checkpoints(tmp_path, disk)
    for number in range(3):
        checkpoints.of(TopicPartition("t", number)).set_start_offset(4 + number)
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError):
        checkpoints.forget(TopicPartition("t", 0))
    disk.fill(is_full=False)
    assert checkpoints.of(TopicPartition("t", 0)).start_offset == 0
    checkpoints.forget(TopicPartition("t", 9))
    assert read_offsets(tmp_path / LOG_STARTS) == {
        TopicPartition("t", 1): 5,
        TopicPartition("t", 2): 6,
    }


def test_checkpoints_written_together_are_written_once_and_at_the_end(tmp_path: Path) -> None:
    opened: list[str] = []

    class Counting(UnsyncedDisk):
        def open(self, path: Path) -> WritableFile:
            opened.append(path.name)
            return super().open(path)

    checkpoints = Checkpoints(tmp_path, Counting())
    with checkpoints.together():
        for number in range(3):
            mine = checkpoints.of(TopicPartition("t", number))
            mine.set_recovery_point(1 + number)
            mine.set_start_offset(2 + number)
        assert not opened
    assert sorted(opened) == [f"{LOG_STARTS}.tmp", f"{RECOVERY_POINTS}.tmp"]
    mine.set_recovery_point(9)
    found = read_offsets(tmp_path / RECOVERY_POINTS)
    assert found == {TopicPartition("t", n): at for n, at in ((0, 1), (1, 2), (2, 9))}


def test_a_file_is_written_by_one_thread_at_a_time(tmp_path: Path) -> None:
    """This holds for a new offset, for several at once, and for a log that is gone."""
    at_once, most = 0, 0

    class Slow(UnsyncedDisk):
        def open(self, path: Path) -> WritableFile:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            time.sleep(0.001)
            at_once -= 1
            return super().open(path)

    checkpoints = Checkpoints(tmp_path, Slow())

    def work(number: int) -> None:
        for offset in range(1, 10):
            name = TopicPartition("t", number)
            checkpoints.of(name).set_recovery_point(offset)
            if number % 2:
                checkpoints.forget(name)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert most == 1
    found = read_offsets(tmp_path / RECOVERY_POINTS)
    assert found == {TopicPartition("t", number): 9 for number in (0, 2)}
