"""One writer at a time, and the mark of a clean shutdown."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from downconvert.storage import CorruptFileError, Log, LogDir, LogInUseError, TopicPartition
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.files import DISK
from downconvert.storage.session import DirectoryLock, Session

from .logs import UNSYNCED, UnsyncedDisk, batch

CLEAN = ".kafka_cleanshutdown"
# Holds the lock as a broker does, until its input ends. Java takes the same kind of lock.
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_directory_in_use_by_a_broker_is_not_written_to(tmp_path: Path) -> None:
    with subprocess.Popen(
        (sys.executable, "-c", HOLD, str(tmp_path / ".lock")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        with pytest.raises(LogInUseError, match="open for writing elsewhere"):
            LogDir.open(tmp_path, writable=True)
        LogDir.open(tmp_path)  # to be read, it may be open
        broker.communicate()
    LogDir.open(tmp_path, writable=True).close()


def test_a_directory_has_one_writer_at_a_time(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(LogInUseError):
        Session(tmp_path, DISK)
    lock.release()
    lock.release()  # twice is once
    session = Session(tmp_path, DISK)
    with pytest.raises(LogInUseError):
        DirectoryLock(tmp_path)
    lock.release()  # not the session's
    with pytest.raises(LogInUseError):
        DirectoryLock(tmp_path)
    session.end(clean=False)
    DirectoryLock(tmp_path).release()


def test_a_directory_is_free_when_its_lock_is_given_back_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process loses its lock on a file with any descriptor of it that it closes."""
    lock = DirectoryLock(tmp_path)
    close, refused = os.close, list[bool]()

    def close_late(file: int) -> None:
        monkeypatch.setattr(os, "close", close)
        with pytest.raises(LogInUseError):  # as another thread would
            DirectoryLock(tmp_path)
        refused.append(True)
        close(file)

    monkeypatch.setattr(os, "close", close_late)
    lock.release()
    assert refused == [True]
    DirectoryLock(tmp_path).release()


def test_one_of_two_threads_takes_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lockf, refused = fcntl.lockf, list[bool]()

    def lock_late(*arguments: Any) -> None:
        monkeypatch.setattr(fcntl, "lockf", lockf)
        with pytest.raises(LogInUseError):
            DirectoryLock(tmp_path)
        refused.append(True)
        lockf(*arguments)

    monkeypatch.setattr(fcntl, "lockf", lock_late)
    lock = DirectoryLock(tmp_path)
    assert refused == [True]
    lock.release()
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").mkdir()
    for _ in range(2):  # what cannot be locked is not held either
        with pytest.raises((OSError, CorruptFileError)):
            DirectoryLock(tmp_path)


def test_the_mark_of_a_clean_shutdown_is_removed_before_the_first_write(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path, writable=True)
    log = log_dir.logs.create(TopicPartition("topic", 0))
    assert not (tmp_path / CLEAN).exists()
    log.writer.append(batch(0))
    log_dir.close()
    assert (tmp_path / CLEAN).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    with LogDir.open(tmp_path, writable=True) as log_dir:
        assert not (tmp_path / CLEAN).exists()
        assert log_dir.logs[TopicPartition("topic", 0)].writer.recovery.checked == []


def test_closing_one_log_does_not_mark_the_directory_as_clean(tmp_path: Path) -> None:
    path = tmp_path / "topic-0"
    path.mkdir()
    Log.open(path, writable=True, files=UNSYNCED).close()
    assert not (tmp_path / CLEAN).exists()
    (tmp_path / CLEAN).touch()
    Log.open(path, writable=True, files=UNSYNCED).close()
    assert (tmp_path / CLEAN).exists()  # as they were


def test_a_directory_that_cannot_be_opened_is_unlocked_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Log.open(tmp_path / "none-0", writable=True)
    with pytest.raises(ValueError, match="not the name"):
        Log.open(tmp_path / "none", writable=True)
    DirectoryLock(tmp_path).release()


def test_a_full_verification_trusts_no_clean_shutdown(tmp_path: Path) -> None:
    for verify_all in (True, False):
        Session(tmp_path, UNSYNCED).end(clean=True)
        session = Session(tmp_path, UNSYNCED, verify_all=verify_all)
        assert (session.was_clean, session.verifies_all) == (not verify_all, verify_all)
        assert not (tmp_path / CLEAN).exists()
        session.end(clean=False)


@pytest.mark.parametrize("seed", range(8))
def test_the_mark_of_a_clean_shutdown_does_not_come_back_after_a_crash(
    tmp_path: Path, seed: int
) -> None:
    """The logs may have changed since. Their recovery would be left out."""
    directory, left = tmp_path / "log", tmp_path / "left"
    directory.mkdir()
    left.mkdir()
    Session(directory, UNSYNCED).end(clean=True)
    disk = FaultyDisk(directory, random=Random(seed))
    session = Session(directory, disk)
    disk.survivors(left)
    assert not (left / CLEAN).exists()
    session.end(clean=False)


def test_a_session_that_cannot_begin_leaves_the_directory_to_others(tmp_path: Path) -> None:
    class Refusing(UnsyncedDisk):
        def remove(self, path: Path) -> None:
            raise PermissionError(13, "Permission denied", str(path))

    Session(tmp_path, UNSYNCED).end(clean=True)
    with pytest.raises(PermissionError):
        Session(tmp_path, Refusing())
    Session(tmp_path, UNSYNCED).end(clean=True)
