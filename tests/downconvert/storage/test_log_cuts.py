"""The state of a log that was cut at one of its ends, before and after it is opened again."""

import sys
from contextlib import suppress
from errno import EIO
from pathlib import Path
from random import Random

import pytest

from downconvert.storage import DiskFullError, Log, LogConfig, LogDir, LogDirOfflineError
from downconvert.storage.checkpoints.checkpoint import EpochEntry, read_epochs, read_offsets
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed
from downconvert.storage.names import Kind, TopicPartition
from downconvert.storage.verify import verify_indexes
from records.formats import V0

from .logs import UNSYNCED, UnsyncedDisk, batch, offsets

POINTS = "recovery-point-offset-checkpoint"
PARTITION = TopicPartition("topic", 0)
OPEN = {"base_sequence": 0, "producer_epoch": 0, "transactional": True}


def opened(path: Path, count: int = 0) -> Log:
    """A log of segments of three batches, to which so many are appended."""
    config = LogConfig(segment_bytes=3 * len(batch(0)))
    log = Log.open(path, writable=True, config=config, files=UNSYNCED)
    for offset in range(log.end_offset, log.end_offset + count):
        log.writer.append(batch(offset))
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_segments_checked_by_a_recovery_are_not_read_by_the_next_one(path: Path) -> None:
    opened(path, 6).abandon()
    (path.parent / POINTS).unlink()
    for bases_read in ([0, 3], [3]):
        log = opened(path)
        assert [report.base_offset for report in log.writer.recovery.checked] == bases_read
        log.abandon()


def test_truncated_segments_do_not_come_back_after_new_records(
    tmp_path: Path,
) -> None:
    for seed in range(30):
        root, left = tmp_path / f"{seed}", tmp_path / f"{seed}-left"
        (root / "topic-0").mkdir(parents=True)
        left.mkdir()
        opened(root / "topic-0", 9).close()
        disk = FaultyDisk(root, random=Random(seed))
        log = Log.open(root / "topic-0", writable=True, files=disk)
        log.writer.truncate_to(2)
        log.writer.append(batch(2, timestamp=1))
        log.writer.flush()
        disk.survivors(left)
        with Log.open(left / "topic-0", writable=True, files=UNSYNCED) as found:
            assert (bases(found), offsets(found.records())) == ([0], [0, 1, 2]), seed
        log.abandon()


def test_a_segment_that_was_cut_and_rolled_has_no_old_index_entries_after_a_crash(
    tmp_path: Path,
) -> None:
    """The recovery point is at its end, and its indexes are finished only then."""
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=480)
    for dies_in in range(1, 30):
        root, left = tmp_path / f"{dies_in}", tmp_path / f"{dies_in}-left"
        (root / "topic-0").mkdir(parents=True)
        left.mkdir()
        disk = FaultyDisk(root, random=Random(dies_in))
        log = Log.open(root / "topic-0", writable=True, config=config, files=disk)
        for offset in range(6):
            log.writer.append(batch(offset))
        log.writer.roll()
        log.writer.truncate_to(3)
        disk.dies_in(dies_in)
        with suppress(Killed):
            log.writer.roll()
            log.writer.append(batch(3))
            log.writer.flush()
        disk.survivors(left)
        disk.dies_never()
        log.abandon()
        with Log.open(left / "topic-0", writable=True, config=config, files=UNSYNCED) as log:
            assert log.writer.max_timestamp(log.segments[0]) == 20, dies_in
        assert not list(verify_indexes(left / "topic-0", 0)), dies_in


def test_after_a_truncation_only_remaining_batches_count_as_flushed(path: Path) -> None:
    log = opened(path, 2)
    log.writer.append(batch(2, 3, 4))
    log.writer.flush()
    log.writer.truncate_to(4)
    assert log.end_offset == 2
    assert log.writer.flushed_offset == 2


def test_truncating_the_batch_with_the_start_offset_leaves_an_empty_log(
    path: Path,
) -> None:
    with opened(path, 2) as log:
        log.writer.append(batch(2, 3, 4, 5))
        log.writer.delete_records(4)
        log.writer.truncate_to(5)
        assert (log.start_offset, log.end_offset) == (4, 4)
        log.writer.append(batch(4))
    with opened(path) as log:
        assert (log.start_offset, offsets(log.records())) == (4, [4])


def test_a_restarted_log_has_no_old_snapshots(path: Path) -> None:
    with opened(path, 2) as log:
        assert log.writer.producers == {}
    with opened(path) as log:
        assert log.writer.snapshots == [2]
        log.writer.truncate_fully_and_start_at(100)
        assert log.writer.snapshots == []
        assert list(path.glob("*.snapshot")) == []


def test_a_log_restarted_at_a_lower_offset_has_no_recovery_point_above_its_end(path: Path) -> None:
    log = opened(path, 9)
    log.writer.truncate_fully_and_start_at(2)
    assert read_offsets(path.parent / POINTS).get(PARTITION, 0) <= 2
    log.abandon()


def test_a_segment_that_ends_at_the_new_start_is_removed(path: Path) -> None:
    with opened(path, 9) as log:
        log.writer.delete_records(3)
        assert (log.start_offset, bases(log)) == (3, [3, 6])


def test_removing_the_oldest_segment_never_lowers_the_start(path: Path) -> None:
    """The start that a broker has noted may be behind segments that are still there."""
    opened(path, 9).close()
    (path.parent / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 7\n")
    with opened(path) as log:
        assert (log.start_offset, bases(log)) == (7, [0, 3, 6])
        log.writer.remove_oldest(1)
        assert (log.start_offset, bases(log)) == (7, [3, 6])


@pytest.mark.parametrize("producer_id", [0, 1])
def test_earlier_producers_are_known_before_the_first_append(
    tmp_path: Path, producer_id: int
) -> None:
    """The same holds for a log without snapshots that was closed cleanly, as by old brokers."""
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log = log_dir.logs.create(PARTITION)
        log.writer.append(batch(0, producer_id=5, **OPEN))
    for snapshot in (tmp_path / "topic-0").glob("*.snapshot"):
        snapshot.unlink()
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log = log_dir.logs[PARTITION]
        log.writer.append(batch(1, producer_id=producer_id, **OPEN))
        assert log.last_stable_offset == 0
        assert sorted(log.writer.producers) == [producer_id, 5]


def test_a_log_that_is_closed_unchanged_gets_the_snapshot_that_it_lacks(path: Path) -> None:
    opened(path, 2).close()
    for snapshot in path.glob("*.snapshot"):
        snapshot.unlink()
    with opened(path) as log:
        assert log.writer.producers == {}
    assert [snapshot.name for snapshot in path.glob("*.snapshot")] == [f"{2:020}.snapshot"]


def test_after_a_crash_without_snapshots_the_next_segment_begins_with_one(path: Path) -> None:
    opened(path, 2).abandon()
    with opened(path) as log:
        log.writer.roll()
        assert log.writer.snapshots == [2]


@pytest.mark.parametrize("appends", [True, False])
def test_epochs_that_a_full_disk_kept_are_removed_by_the_next_append_or_the_end(
    path: Path, appends: bool
) -> None:
    disk = FaultyDisk(path.parent)
    with Log.open(path, writable=True, files=disk) as log:
        log.writer.append(batch(0, leader_epoch=0) + batch(1, leader_epoch=1))
        disk.fill_for(path / "leader-epoch-checkpoint.tmp")
        with pytest.raises(DiskFullError):
            log.writer.truncate_to(1)
        disk.fill(is_full=False)
        if appends:
            log.writer.append(batch(1, leader_epoch=0))
            assert read_epochs(path / "leader-epoch-checkpoint") == [EpochEntry(0, 0)]
    assert read_epochs(path / "leader-epoch-checkpoint") == [EpochEntry(0, 0)]


def test_the_age_of_an_emptied_segment_counts_from_its_next_append(path: Path) -> None:
    config = LogConfig(segment_ms=5000)
    with Log.open(path, writable=True, config=config, files=UNSYNCED) as log:
        log.writer.append(batch(0, magic=V0), now=1000)
        log.writer.truncate_to(0)
        log.writer.append(batch(0, magic=V0), now=10_000)
        assert not log.writer.active.is_old(10_500)


def test_a_release_flushes_even_if_the_files_are_closed_already(path: Path) -> None:
    """As after an append with too many open files."""
    left = path.parent / "left"
    left.mkdir()
    disk = FaultyDisk(path.parent, random=Random(1))
    with Log.open(path, writable=True, files=disk) as log:
        log.writer.append(batch(0, size=9000))
        log.writer.active.release()
        log.writer.release()
        assert log.writer.flushed_offset == 1
        disk.survivors(left)
    with Log.open(left / "topic-0") as found:
        assert offsets(found.records()) == [0]


def test_a_producer_whose_transaction_is_open_is_not_forgotten(path: Path) -> None:
    with opened(path) as log:
        log.writer.append(batch(0, producer_id=5, **OPEN))
        log.writer.append(batch(1, producer_id=6, producer_epoch=0, base_sequence=0))
        assert log.writer.expire_producers(10**9, 1000) == 1
        assert list(log.writer.producers) == [5]
        assert log.last_stable_offset == 0


@pytest.mark.parametrize("full_from", range(1, 30))
def test_a_log_that_cannot_be_restarted_for_lack_of_room_knows_its_own_producers_and_epochs(
    path: Path, full_from: int
) -> None:
    """Those of removed records would hold up the last stable offset, and be sent to a leader."""
    disk = FaultyDisk(path.parent)
    config = LogConfig(segment_bytes=3 * len(batch(0)))
    log = Log.open(path, writable=True, config=config, files=disk)
    log.writer.append(batch(0, producer_id=5, leader_epoch=0, **OPEN))
    for offset in range(1, 9):
        log.writer.append(batch(offset, leader_epoch=1))
    log.writer.flush()
    disk.fill_in(full_from)
    with suppress(DiskFullError):
        log.writer.truncate_fully_and_start_at(20)
    assert log.writer.flushed_offset <= log.end_offset  # later records there are not on the disk
    disk.fill(is_full=False)
    log.writer.append(batch(log.end_offset, leader_epoch=1))
    first = log.segments[0].base_offset
    there = [header.base_offset for _, header in log.batches(first)]
    assert sorted(log.writer.producers) == ([5] if 0 in there and len(there) > 1 else [])
    assert all(entry.start_offset in there for entry in log.writer.epochs)
    log.writer.truncate_fully_and_start_at(20)
    assert (log.start_offset, log.end_offset, log.last_stable_offset) == (20, 20, 20)
    log.close()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_log_is_offline_if_a_segment_cannot_be_removed_from_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    """Its last segment is another one by then, and that would be removed the next time."""
    log = opened(path, 9)

    def cut() -> None:
        if restarts:
            log.writer.truncate_fully_and_start_at(20)
        else:
            log.writer.truncate_to(1)

    remove = UnsyncedDisk.remove

    def fail(disk: UnsyncedDisk, path: Path) -> None:
        if path.suffix == Kind.LOG:
            raise OSError(EIO, "Input/output error", str(path))
        remove(disk, path)

    with monkeypatch.context() as failing:
        failing.setattr(UnsyncedDisk, "remove", fail)
        with pytest.raises(LogDirOfflineError):
            cut()
    with pytest.raises(LogDirOfflineError, match="Input/output error"):
        cut()
    log.close()
    with opened(path) as log:
        assert offsets(log.records()) == [*range(9)]


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
@pytest.mark.parametrize("restarts", [False, True])
def test_files_that_are_removed_from_the_end_of_a_log_are_closed(
    path: Path, restarts: bool
) -> None:
    """Else their space would be taken until the process ends."""
    log = opened(path, 9)
    if restarts:
        log.writer.truncate_fully_and_start_at(20)
    else:
        log.writer.truncate_to(1)
    links = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert [one for one in links if one.startswith(str(path)) and one.endswith("(deleted)")] == []
    log.close()


@pytest.mark.parametrize(("cut_at", "expected"), [(7, 7), (3, 3), (9, 8), (None, 0)])
def test_records_that_replace_truncated_ones_count_as_dirty(
    tmp_path: Path, cut_at: int | None, expected: int
) -> None:
    """The log has cleaned records below 8. It is as long as before after the cut."""
    path = tmp_path / "table-0"
    path.mkdir()
    with Log.open(path, writable=True, files=UNSYNCED) as log:
        for offset in range(12):
            log.writer.append(batch(offset))
        log.writer.note_cleaner_point(8)
        if cut_at is None:
            log.writer.truncate_fully_and_start_at(0)
        else:
            log.writer.truncate_to(cut_at)
        for offset in range(log.end_offset, 12):
            log.writer.append(batch(offset))
        assert log.writer.cleaner_point == expected
    with Log.open(path, writable=True, files=UNSYNCED) as log:
        assert log.writer.cleaner_point == expected
