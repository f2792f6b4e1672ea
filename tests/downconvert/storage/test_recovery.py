"""Recovery of a directory before it is written to."""

from pathlib import Path

import pytest

from downconvert.storage import LogConfig
from downconvert.storage.checkpoints.checkpoint import EpochEntry, read_epochs, write_epochs
from downconvert.storage.disk.files import DISK, WritableFile
from downconvert.storage.disk.open_files import OpenFiles
from downconvert.storage.errors import CorruptFileError
from downconvert.storage.names import Kind, State, file_name
from downconvert.storage.producers.producer_state import (
    ProducerState,
    ProducerStates,
    write_snapshot,
)
from downconvert.storage.recovery import RecoveredLog

from .logs import UNSYNCED, UnsyncedDisk, batch, indexed_segment, segment


def recover(
    path: Path, *, clean: bool = False, recovery_point: int = 0, start_offset: int = 0
) -> RecoveredLog:
    log = RecoveredLog(path, OpenFiles(), LogConfig(), UNSYNCED)
    log.recover(clean=clean, recovery_point=recovery_point, start_offset=start_offset)
    return log


def checked(log: RecoveredLog) -> list[int]:
    return [report.base_offset for report in log.report.checked]


def bases(log: RecoveredLog) -> list[int]:
    return [made.base_offset for made in log.segments]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Segments 0-9, 10-19 and 20-29."""
    for base in (0, 10, 20):
        indexed_segment(tmp_path, base, *(batch(n, n + 1) for n in range(base, base + 10, 2)))
    return tmp_path


def damage(path: Path, base: int, at_batch: int) -> None:
    log = path / file_name(base, Kind.LOG)
    data = bytearray(log.read_bytes())
    data[(at_batch + 1) * len(batch(base, base + 1)) - 1] ^= 1
    log.write_bytes(data)


def test_an_empty_directory_gets_a_segment(tmp_path: Path) -> None:
    log = recover(tmp_path, start_offset=42)
    assert (bases(log), log.end_offset) == ([42], 42)


def test_after_a_clean_shutdown_nothing_is_read_again(path: Path) -> None:
    damage(path, 0, 2)
    log = recover(path, clean=True)
    assert (checked(log), log.end_offset, log.report.removed) == ([], 30, [])


def test_flushed_segments_are_not_read_again(path: Path) -> None:
    assert checked(recover(path, recovery_point=0)) == [0, 10, 20]
    assert checked(recover(path, recovery_point=10)) == [10, 20]
    assert checked(recover(path, recovery_point=15)) == [10, 20]
    assert checked(recover(path, recovery_point=30)) == [20]


def test_damage_cuts_the_log_and_removes_later_segments(path: Path) -> None:
    damage(path, 10, 2)
    log = recover(path)
    assert (bases(log), log.end_offset) == ([0, 10], 14)
    assert log.report.bytes_cut == 3 * len(batch(10, 11))
    assert log.report.damage is not None
    assert [file.name for file in path.glob("*20.*")] == [f"{file_name(20, Kind.LOG)}.aside"]


def test_segments_after_a_cut_are_set_aside_from_the_last_one_on(path: Path) -> None:
    damage(path, 0, 4)  # its last batch: nothing is lost of this one
    before = {base: (path / file_name(base, Kind.LOG)).read_bytes() for base in (10, 20)}
    log = recover(path)
    aside = [f"{file_name(base, Kind.LOG)}.aside" for base in (20, 10)]
    assert log.report.set_aside == aside
    assert [(path / name).read_bytes() for name in aside] == [before[20], before[10]]
    again = recover(path)  # they are no part of the log, and no leftovers
    assert (bases(again), again.report.removed, again.end_offset) == ([0], [], 8)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("content", [bytes(5000), b"x" * 5000, batch(0)[:-2], b"7"])
def test_a_file_without_a_batch_is_set_aside_before_it_is_cut(
    tmp_path: Path, content: bytes, clean: bool
) -> None:
    name = file_name(0, Kind.LOG)
    for number in ("", "2"):
        (tmp_path / name).write_bytes(content + number.encode())
        log = recover(tmp_path, clean=clean)
        assert (tmp_path / name).read_bytes() == b""
        assert log.report.set_aside == [f"{name}.aside{number}"]
        assert (tmp_path / f"{name}.aside{number}").read_bytes() == content + number.encode()


def test_whole_batches_after_damage_are_set_aside_with_it(path: Path) -> None:
    damage(path, 20, 2)
    size = len(batch(20, 21))
    data = (path / file_name(20, Kind.LOG)).read_bytes()
    log = recover(path)
    assert log.report.set_aside == [f"{file_name(20, Kind.LOG)}.aside"]
    assert (path / log.report.set_aside[0]).read_bytes() == data[2 * size :]
    assert (path / file_name(20, Kind.LOG)).read_bytes() == data[: 2 * size]


def test_only_the_unfinished_batch_of_a_crash_is_cut_off(path: Path) -> None:
    log_file = path / file_name(20, Kind.LOG)
    log_file.write_bytes(log_file.read_bytes() + batch(30)[:-1] + bytes(100))
    assert recover(path).report.set_aside == []


@pytest.mark.parametrize("kind", [Kind.LOG, Kind.OFFSET_INDEX, Kind.SNAPSHOT])
@pytest.mark.parametrize("clean", [False, True])
def test_nothing_is_changed_if_a_file_is_a_link(path: Path, kind: Kind, clean: bool) -> None:
    target = path.parent / f"outside {path.name}"
    target.write_bytes(b"of somebody else")
    (path / file_name(20, kind)).unlink(missing_ok=True)
    (path / file_name(20, kind)).symlink_to(target)
    (path / file_name(77, Kind.TIME_INDEX)).touch()  # which recovery would remove
    with pytest.raises(CorruptFileError, match="is a link, and nothing is written through one"):
        recover(path, clean=clean)
    assert (path / file_name(77, Kind.TIME_INDEX)).exists()
    assert target.read_bytes() == b"of somebody else"


@pytest.mark.parametrize("kind", [Kind.LOG, Kind.OFFSET_INDEX, Kind.SNAPSHOT])
def test_nothing_is_changed_if_a_file_is_a_directory(path: Path, kind: Kind) -> None:
    damage(path, 20, 2)
    (path / file_name(20, kind)).unlink(missing_ok=True)
    (path / file_name(20, kind)).mkdir()
    before = {file: file.read_bytes() for file in path.iterdir() if file.is_file()}
    with pytest.raises(CorruptFileError, match="is a directory, and not a file of the log"):
        recover(path)
    assert before == {file: file.read_bytes() for file in path.iterdir() if file.is_file()}


def test_damage_in_a_directory_that_was_closed_is_found_at_its_end(path: Path) -> None:
    data = (path / file_name(20, Kind.LOG)).read_bytes()
    (path / file_name(20, Kind.LOG)).write_bytes(data + b"x" * 50)
    log = recover(path, clean=True, recovery_point=30)
    assert (checked(log), log.end_offset) == ([20], 30)


def test_a_missing_offset_index_is_rebuilt(path: Path) -> None:
    (path / file_name(10, Kind.OFFSET_INDEX)).unlink()
    assert checked(recover(path, clean=True)) == [10]
    assert (path / file_name(10, Kind.OFFSET_INDEX)).exists()


def test_leftovers_are_removed(path: Path) -> None:
    names = [
        file_name(0, Kind.LOG, State.DELETED),
        file_name(10, Kind.LOG, State.CLEANED),
        file_name(10, Kind.OFFSET_INDEX, State.CLEANED),
        file_name(30, Kind.SNAPSHOT, State.TEMPORARY),
        file_name(77, Kind.TIME_INDEX),
    ]
    for name in names:
        (path / name).write_bytes(b"anything")
    log = recover(path, clean=True)
    assert sorted(log.report.removed) == sorted(names)
    assert not any((path / name).exists() for name in names)
    assert log.end_offset == 30


def test_a_swap_is_completed(path: Path) -> None:
    cleaned = segment(path.parent / "cleaned", 0, batch(3), batch(17))
    cleaned.path().rename(path / file_name(0, Kind.LOG, State.SWAP))
    log = recover(path, clean=True)
    assert bases(log) == [0, 20]
    found = [h.last_offset for h in log.segments[0].slice(0, log.segments[0].size).batches()]
    assert found == [3, 17]
    assert not list(path.glob("*.swap"))


@pytest.mark.parametrize("content", [bytes(500), batch(3) + b"torn"])
def test_an_incomplete_swap_replaces_nothing(path: Path, content: bytes) -> None:
    before = (path / file_name(0, Kind.LOG)).read_bytes()
    swap = file_name(0, Kind.LOG, State.SWAP)
    (path / swap).write_bytes(content)
    (path / file_name(0, Kind.OFFSET_INDEX, State.SWAP)).write_bytes(b"of that")
    log = recover(path)
    assert (bases(log), log.end_offset) == ([0, 10, 20], 30)
    assert (path / file_name(0, Kind.LOG)).read_bytes() == before
    assert log.report.set_aside == [f"{swap}.aside"]
    assert (path / f"{swap}.aside").read_bytes() == content
    assert not list(path.glob("*.swap"))


@pytest.mark.parametrize("base", [20, 30])
def test_a_swap_of_other_offsets_is_set_aside(path: Path, base: int) -> None:
    """Whether it would take the place of a segment, or be one more."""
    before = (path / file_name(20, Kind.LOG)).read_bytes()
    swap = file_name(base, Kind.LOG, State.SWAP)
    (path / swap).write_bytes(batch(3) + batch(31))
    log = recover(path)
    assert (bases(log), log.end_offset) == ([0, 10, 20], 30)
    assert (path / file_name(20, Kind.LOG)).read_bytes() == before
    assert log.report.set_aside == [f"{swap}.aside"]


def test_a_damaged_swap_is_used_if_its_segment_is_missing(path: Path) -> None:
    whole = batch(3) + batch(17)
    (path / file_name(0, Kind.LOG)).unlink()
    (path / file_name(0, Kind.LOG, State.SWAP)).write_bytes(whole + batch(18)[:-1])
    log = recover(path)
    assert log.report.set_aside[-1:] != [f"{file_name(0, Kind.LOG, State.SWAP)}.aside"]
    assert (path / file_name(0, Kind.LOG)).read_bytes() == whole


def test_later_segments_are_set_aside_before_the_cut_is_synced(path: Path) -> None:
    """Else, after a crash, the next recovery would find nothing wrong but a hole."""
    damage(path, 0, 4)
    done: list[str] = []

    class Noting(UnsyncedDisk):
        def rename(self, source: Path, target: Path) -> None:
            done.append("aside" if ".aside" in target.name else "rename")
            super().rename(source, target)

        def sync_directory(self, path: Path) -> None:
            done.append("sync")
            super().sync_directory(path)

        def open(self, path: Path) -> WritableFile:
            done.append("cut" if path.suffix == ".log" else "open")
            return super().open(path)

    log = RecoveredLog(path, OpenFiles(), LogConfig(), Noting())
    log.recover(clean=False, recovery_point=0, start_offset=0)
    last_aside = max(at for at, what in enumerate(done) if what == "aside")
    assert "sync" in done[last_aside : done.index("cut")]


def test_a_swap_interrupted_between_two_renames_is_completed(path: Path) -> None:
    """The old files are gone, and its index has its name already."""
    cleaned = indexed_segment(path.parent / "cleaned", 0, batch(3), batch(17))
    for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        for base in (0, 10):
            (path / file_name(base, kind)).unlink()
    cleaned.path(Kind.OFFSET_INDEX).rename(path / file_name(0, Kind.OFFSET_INDEX))
    cleaned.path().rename(path / file_name(0, Kind.LOG, State.SWAP))
    log = recover(path, clean=True)
    assert (bases(log), checked(log)) == ([0, 20], [])
    assert (path / file_name(0, Kind.OFFSET_INDEX)).exists()


def test_producers_are_followed_from_the_newest_snapshot(tmp_path: Path) -> None:
    options = {"producer_epoch": 0, "base_sequence": 0}
    for base in (0, 10, 20):
        indexed_segment(tmp_path, base, batch(base, producer_id=base, **options))
    known = ProducerStates([ProducerState(5, 0)])
    write_snapshot(DISK, tmp_path / file_name(10, Kind.SNAPSHOT), known)
    (tmp_path / file_name(20, Kind.SNAPSHOT)).write_bytes(b"damaged")
    write_snapshot(DISK, tmp_path / file_name(40, Kind.SNAPSHOT), known)  # after the end
    for clean in (True, False):
        log = recover(tmp_path, clean=clean, recovery_point=20)
        assert sorted(log.producers.states.producers) == [5, 10, 20]
        assert log.snapshots == [10, 20]
        assert not (tmp_path / file_name(40, Kind.SNAPSHOT)).exists()


def test_leader_epochs_are_rebuilt(tmp_path: Path) -> None:
    epochs = ((104, 0), (105, 0), (106, 1), (107, 1), (110, 2))
    segment(tmp_path, 104, *(batch(offset, leader_epoch=epoch) for offset, epoch in epochs))
    expected = [EpochEntry(0, 104), EpochEntry(1, 106), EpochEntry(2, 110)]
    assert recover(tmp_path).epochs == expected
    assert read_epochs(tmp_path / "leader-epoch-checkpoint") == expected


def test_epochs_after_the_end_are_removed_after_a_crash(path: Path) -> None:
    epochs = [EpochEntry(0, 0), EpochEntry(1, 30)]
    write_epochs(DISK, path / "leader-epoch-checkpoint", epochs)
    assert recover(path, clean=True).epochs == epochs  # a leader without a record yet
    assert recover(path, clean=False).epochs == epochs[:1]


def test_an_interrupted_recovery_is_repeated(path: Path) -> None:
    damage(path, 10, 2)
    recover(path)
    again = recover(path)
    assert (bases(again), again.end_offset, again.report.bytes_cut) == ([0, 10], 14, 0)


@pytest.mark.parametrize("at_batch", [0, 4])
def test_a_log_of_one_segment_ends_where_it_was_cut(tmp_path: Path, at_batch: int) -> None:
    indexed_segment(tmp_path, 0, *(batch(n, n + 1) for n in range(0, 10, 2)))
    damage(tmp_path, 0, at_batch)
    log = recover(tmp_path)
    assert checked(log) == [0]
    assert (log.end_offset, log.position) == (2 * at_batch, at_batch * len(batch(0, 1)))
    assert log.segments[0].size == log.position
