"""Files of entries: the number of entries, whatever program wrote the file."""

from pathlib import Path

import pytest

from downconvert.storage.disk.entry_file import EntryFile, used_entries
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.disk.files import DISK
from downconvert.storage.errors import DiskFullError

ENTRY = b"\x00\x01\x02\x03\x04\x05\x06\x07"


def count(path: Path, entry_size: int = 8) -> int:
    with path.open("rb") as file:
        return used_entries(file.fileno(), entry_size)


@pytest.mark.parametrize("used", [0, 1, 2, 3, 500, 1279, 1280])
def test_zeros_after_a_running_brokers_entries_are_not_entries(tmp_path: Path, used: int) -> None:
    path = tmp_path / "index"
    path.write_bytes(ENTRY * used + bytes(10240 - 8 * used))
    assert count(path) == used


@pytest.mark.parametrize(("entries", "used"), [(1, 1), (2, 2), (3, 3)])
def test_a_first_entry_of_zeros_counts_if_others_follow(
    tmp_path: Path, entries: int, used: int
) -> None:
    path = tmp_path / "index"
    path.write_bytes(bytes(8) + ENTRY * (entries - 1))
    assert count(path) == used
    path.write_bytes(bytes(8) + ENTRY * (entries - 1) + bytes(800))
    assert count(path) == (used if entries > 1 else 0)


def test_a_torn_last_entry_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(ENTRY * 3 + b"\x01" * 7)
    assert EntryFile.open(path, 8).count == 3


def test_an_empty_file_has_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.touch()
    entries = EntryFile.open(path, 8)
    assert (entries.count, entries.view, entries.capacity) == (0, b"", 0)
    assert entries.is_whole()
    entries.close()


def test_the_file_of_an_active_segment_is_preallocated_and_then_trimmed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    entries = EntryFile.open_writable(path, 8, DISK, 10243)
    assert path.stat().st_size == 10240
    assert path.stat().st_blocks == 0  # zeros that take no room
    entries.append(ENTRY)
    entries.trim()
    entries.close()
    assert path.read_bytes() == ENTRY


def test_readers_that_map_the_file_see_new_entries(tmp_path: Path) -> None:
    path = tmp_path / "index"
    entries = EntryFile.open_writable(path, 8, DISK, 10240)
    entries.append(ENTRY)
    assert entries.view[:8] == ENTRY
    reader = EntryFile.open(path, 8)
    entries.append(ENTRY[::-1])
    assert (reader.count, reader.entry(0)) == (1, ENTRY)
    assert EntryFile.open(path, 8).entry(1) == ENTRY[::-1]


def test_a_reopened_file_has_its_entries_and_space_after_them(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(ENTRY * 5)
    entries = EntryFile.open_writable(path, 8, DISK, 80)
    assert (entries.count, entries.capacity) == (5, 10)
    assert path.stat().st_size == 80


def test_a_file_above_the_maximum_size_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(ENTRY * 5)
    entries = EntryFile.open_writable(path, 8, DISK, 16)
    assert (entries.count, entries.capacity) == (5, 5)
    with pytest.raises(ValueError, match="full"):
        entries.append(ENTRY)


def test_truncated_entries_are_gone_when_the_file_is_trimmed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    entries = EntryFile.open_writable(path, 8, DISK, 80)
    for _ in range(4):
        entries.append(ENTRY)
    entries.truncate(1)
    entries.truncate(3)  # nothing to do
    assert entries.count == 1
    entries.append(ENTRY[::-1])
    entries.trim()
    assert path.read_bytes() == ENTRY + ENTRY[::-1]


def test_a_reader_knows_that_the_file_was_cut_under_it(tmp_path: Path) -> None:
    """To read such a mapping would kill the process."""
    path = tmp_path / "index"
    path.write_bytes(ENTRY * 2000)
    entries = EntryFile.open(path, 8)
    assert entries.is_whole()
    with path.open("r+b") as file:
        file.truncate(8)
    assert not entries.is_whole()
    entries.close()


def test_a_reader_does_not_write(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(ENTRY * 2)
    entries = EntryFile.open(path, 8)
    with pytest.raises(ValueError, match="reading only"):
        entries.truncate(1)
    with pytest.raises(ValueError, match="full"):
        entries.append(ENTRY)
    assert path.read_bytes() == ENTRY * 2


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        EntryFile.open(tmp_path / "index", 8)


def test_a_full_disk_leaves_existing_entries_unchanged(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    entries = EntryFile.open_writable(tmp_path / "index", 8, disk, 80)
    entries.append(ENTRY)
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError, match="no space left"):
        entries.append(ENTRY)
    assert entries.count == 1
