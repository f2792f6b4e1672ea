"""Bytes that recovery removes are kept, and are searched for batches."""

from pathlib import Path
from random import Random

import pytest

from downconvert.storage import aside
from downconvert.storage.aside import copy_aside, holds_batch, move_aside
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.errors import DiskFullError
from downconvert.storage.indexes.offset_index import RELATIVE_MAX
from downconvert.storage.names import parse_file_name

from .logs import UNSYNCED, batch, segment

HIGH = 2**32 - 3  # a base offset whose batches have either of two high halves


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("base", [0, HIGH])
@pytest.mark.parametrize("before", [0, 1, 17, 5000])
def test_a_batch_is_found_wherever_it_begins(
    tmp_path: Path, magic: int, base: int, before: int
) -> None:
    noise = Random(before).randbytes(before)
    made = segment(tmp_path, base, b"cut", noise, batch(base + 5, magic=magic), b"\0\0")
    assert holds_batch(made, 3)


@pytest.mark.parametrize("size", range(59, 64))
def test_a_batch_across_two_windows_is_found(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "WINDOW_SIZE", size)
    for before in range(2 * size):
        made = segment(tmp_path, 0, b"\xff" * before, batch(3))
        assert holds_batch(made, 0)
        made.release()


def test_bytes_that_only_look_like_a_batch_do_not_count(tmp_path: Path) -> None:
    good = batch(7, 8, size=100)
    torn, damaged = good[:-1], good[:-1] + b"\xff"
    of_another = batch(3)  # below the segment's offset
    made = segment(tmp_path, 5, torn)
    assert not holds_batch(made, 0)
    made = segment(tmp_path, 5, of_another, damaged, bytes(70_000), torn)
    assert not holds_batch(made, 0)
    assert not holds_batch(made, made.size)


@pytest.mark.parametrize(
    ("offset", "fits"),
    [(4, False), (5, True), (5 + RELATIVE_MAX, True), (6 + RELATIVE_MAX, False)],
)
def test_a_batch_with_offsets_outside_the_segment_does_not_count(
    tmp_path: Path, offset: int, fits: bool
) -> None:
    assert holds_batch(segment(tmp_path, 5, b"cut", batch(offset)), 0) is fits


def test_the_search_ends_after_too_many_false_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = batch(0)[:-1] + b"\xff"
    made = segment(tmp_path, 0, damaged * 5)
    monkeypatch.setattr(aside, "VERIFIED_MAX", 4 * len(damaged))
    assert holds_batch(made, 0)
    monkeypatch.setattr(aside, "VERIFIED_MAX", 5 * len(damaged))
    assert not holds_batch(made, 0)


def test_the_bytes_after_a_position_are_copied_once(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, b"good", bytes(3 << 20), b"and", bytes(70))
    target = copy_aside(made, 4, UNSYNCED)
    assert target.read_bytes() == bytes(3 << 20) + b"and" + bytes(70)
    assert target.stat().st_blocks * 512 < 2 << 20
    assert parse_file_name(target.name) is None
    assert copy_aside(made, 4, UNSYNCED) == target
    assert copy_aside(made, 3, UNSYNCED).name == f"{made.path().name}.aside2"
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("others", [b"tail and more", b"tai", b"TAIL"])
def test_a_file_with_other_bytes_is_no_copy(tmp_path: Path, others: bytes) -> None:
    """It may begin in the same way."""
    made = segment(tmp_path, 0, b"good", b"tail")
    (tmp_path / f"{made.path().name}.aside").write_bytes(others)
    target = copy_aside(made, 4, UNSYNCED)
    assert target.name == f"{made.path().name}.aside2"
    assert target.read_bytes() == b"tail"


def test_nothing_of_a_copy_that_a_crash_cut_short_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros are not written, and the bytes that were there before would stay."""
    monkeypatch.setattr(aside, "WINDOW_SIZE", 50)
    made = segment(tmp_path, 0, b"one", bytes(200), b"two")
    (tmp_path / f"{made.path().name}.aside.tmp").write_bytes(b"\xff" * 300)
    copied = copy_aside(made, 0, UNSYNCED)
    assert copied.read_bytes() == made.path().read_bytes()


def test_files_set_aside_overwrite_nothing(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, b"log")
    (tmp_path / f"{made.path().name}.aside").symlink_to("nowhere")
    (tmp_path / f"{made.path().name}.aside2").write_bytes(b"old")
    target = move_aside(made.path(), UNSYNCED)
    assert (target.name, target.read_bytes()) == (f"{made.path().name}.aside3", b"log")
    assert (tmp_path / f"{made.path().name}.aside").is_symlink()
    assert (tmp_path / f"{made.path().name}.aside2").read_bytes() == b"old"


def test_a_full_disk_leaves_no_partial_copy(tmp_path: Path) -> None:
    made = segment(tmp_path, 0, b"log")
    disk = FaultyDisk(tmp_path)
    disk.fill_in(3)
    with pytest.raises(DiskFullError):
        copy_aside(made, 0, disk)
    assert [path.name for path in tmp_path.iterdir()] == [made.path().name]


@pytest.mark.parametrize("seed", range(8))
def test_a_copy_is_safe_before_the_log_is_cut(tmp_path: Path, seed: int) -> None:
    """A crash after that leaves all of it, under its name."""
    path, left = tmp_path / "log", tmp_path / "left"
    made = segment(path, 0, batch(0), batch(1, size=9000))
    left.mkdir()
    disk = FaultyDisk(path, random=Random(seed))
    copied = copy_aside(made, len(batch(0)), disk)
    disk.survivors(left)
    assert (left / copied.name).read_bytes() == batch(1, size=9000)
