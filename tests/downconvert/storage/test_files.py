"""Changes to a disk: all or nothing, and a full disk is told as such."""

import os
from pathlib import Path

import pytest

from downconvert.storage.errors import DiskFullError
from downconvert.storage.files import DISK, replace_file

FULL = Path("/dev/full")  # every write to it finds the disk full


def test_a_file_is_written_by_position(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "f")
    file.write_at(b"cd", 2)
    file.write_at(memoryview(b"ab"), 0)
    file.sync()
    assert (tmp_path / "f").read_bytes() == b"abcd"
    file.truncate(6)
    file.truncate(5)
    assert (tmp_path / "f").read_bytes() == b"abcd\0"
    file.close()
    file.close()


def test_a_replaced_file_has_all_of_the_new(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old and long")
    (tmp_path / "f.tmp").write_bytes(b"left over, and longer than the new")
    replace_file(DISK, path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_files_and_directories_come_and_go(tmp_path: Path) -> None:
    DISK.make_directory(tmp_path / "d")
    DISK.make_directory(tmp_path / "d")
    (tmp_path / "d" / "f").touch()
    DISK.rename(tmp_path / "d" / "f", tmp_path / "d" / "g")
    DISK.remove(tmp_path / "d" / "g")
    DISK.remove(tmp_path / "d" / "g")
    DISK.sync_directory(tmp_path / "d")
    assert list((tmp_path / "d").iterdir()) == []


def test_a_full_disk_has_its_own_error() -> None:
    file = DISK.open(FULL)
    with pytest.raises(DiskFullError, match="no space left on the device for /dev/full") as caught:
        file.write_at(b"x", 0)
    assert isinstance(caught.value.__cause__, OSError)
    file.close()


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DISK.open(tmp_path / "none" / "f")
    file = DISK.open(tmp_path / "f")
    os.close(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.sync()
