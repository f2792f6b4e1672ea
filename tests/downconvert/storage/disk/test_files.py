"""Changes to a disk: all or nothing, and a full disk has its own error."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert.storage.disk.files import DISK, read_file, replace_file
from downconvert.storage.errors import CorruptFileError, DiskFullError


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


def test_files_and_directories_are_created_and_removed(tmp_path: Path) -> None:
    DISK.make_directory(tmp_path / "d")
    DISK.make_directory(tmp_path / "d")
    (tmp_path / "d" / "f").touch()
    DISK.rename(tmp_path / "d" / "f", tmp_path / "d" / "g")
    DISK.remove(tmp_path / "d" / "g")
    DISK.remove(tmp_path / "d" / "g")
    DISK.sync_directory(tmp_path / "d")
    assert list((tmp_path / "d").iterdir()) == []


def test_a_full_disk_has_its_own_error(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "f")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))  # as of a quota
    try:
        with pytest.raises(
            DiskFullError, match=f"no space left on the device for {file.path}"
        ) as e:
            file.write_at(b"x", 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(e.value.__cause__, OSError)
    file.close()


def make_link(path: Path) -> None:
    path.symlink_to(path.parent / "target")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("make", [make_link, make_dangling_link, make_link_to_itself, os.mkfifo])
def test_only_a_regular_file_is_written_to(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "target").write_bytes(b"of somebody else")
    make(tmp_path / "f")
    with pytest.raises(CorruptFileError, match=r"is a link, and nothing|is not a regular file"):
        DISK.open(tmp_path / "f")
    assert (tmp_path / "target").read_bytes() == b"of somebody else"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "target"]


def test_a_file_with_two_names_is_not_written_to_under_one(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"of somebody else")
    (tmp_path / "f").hardlink_to(tmp_path / "target")
    with pytest.raises(CorruptFileError, match="has a second name"):
        DISK.open(tmp_path / "f")
    assert (tmp_path / "target").read_bytes() == b"of somebody else"
    (tmp_path / "target").unlink()
    DISK.open(tmp_path / "f").close()  # it has one name now


def test_a_link_that_is_replaced_leaves_its_target_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"of somebody else")
    (tmp_path / "f.tmp").symlink_to("target")  # where the new one is written first
    (tmp_path / "f").symlink_to("target")
    replace_file(DISK, tmp_path / "f", b"new")
    assert (tmp_path / "target").read_bytes() == b"of somebody else"
    assert (tmp_path / "f").read_bytes() == b"new"


def test_a_link_to_itself_is_a_damaged_file(tmp_path: Path) -> None:
    make_link_to_itself(tmp_path / "f")
    with pytest.raises(CorruptFileError, match="is a link that leads to itself"):
        read_file(tmp_path / "f")


def test_other_errors_are_passed_on(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DISK.open(tmp_path / "none" / "f")
    file = DISK.open(tmp_path / "f")
    os.close(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.sync()
