"""The epochs of a log, in memory and in the file."""

from pathlib import Path

import pytest

from downconvert.storage import DiskFullError, Log
from downconvert.storage.checkpoints.checkpoint import EpochEntry, read_epochs
from downconvert.storage.checkpoints.leader_epochs import LeaderEpochs
from downconvert.storage.disk.faulty_disk import FaultyDisk
from downconvert.storage.names import LEADER_EPOCHS
from records import MemoryRecords
from tests.downconvert.storage.logs import UNSYNCED, batch


def opened(path: Path) -> Log:
    return Log.open(path, writable=True, files=UNSYNCED)


def test_an_epoch_without_records_is_replaced_by_the_next_one(
    path: Path,
) -> None:
    with opened(path) as log:
        log.writer.begin_epoch(1)
        log.writer.append(batch(0, 1, leader_epoch=1))
        log.writer.begin_epoch(3)
        assert log.writer.epochs == ((1, 0), (3, 2))
        log.writer.begin_epoch(2)
        assert log.writer.epochs == ((1, 0), (3, 2))
        log.writer.begin_epoch(4)
        log.writer.append(batch(2, leader_epoch=4))
        assert log.writer.epochs == ((1, 0), (4, 2))
    with opened(path) as log:
        assert log.writer.epochs == ((1, 0), (4, 2))


def test_an_epoch_without_records_is_removed_if_older_batches_are_appended(
    path: Path,
) -> None:
    """Else its records would seem to be of the epoch that this broker led, and no follower that
    has them would ever agree with it."""
    with opened(path) as log:
        log.writer.begin_epoch(2)
        log.writer.append(batch(0, 1, leader_epoch=1))
        assert log.writer.epochs == ((1, 0),)
        log.writer.begin_epoch(4)
        log.writer.append(batch(2, leader_epoch=3) + batch(3, leader_epoch=5))
        assert log.writer.epochs == ((1, 0), (3, 2), (5, 3))
        assert read_epochs(path / LEADER_EPOCHS) == [(1, 0), (3, 2), (5, 3)]


def test_all_epochs_without_records_are_removed_if_an_older_batch_is_appended(path: Path) -> None:
    entries = [EpochEntry(1, 0), EpochEntry(3, 2), EpochEntry(4, 2), EpochEntry(5, 3)]
    epochs = LeaderEpochs(path, UNSYNCED, entries)
    epochs.add(list(MemoryRecords(batch(2, leader_epoch=2)).batches()))
    assert epochs.entries == ((1, 0), (2, 2))


def test_batches_without_an_epoch_leave_the_epochs_as_they_are(path: Path) -> None:
    """A topic in an older format has messages without one, and its leader has one nevertheless."""
    with opened(path) as log:
        log.writer.begin_epoch(2)
        log.writer.append(batch(0, magic=1))
        log.writer.append(batch(1, leader_epoch=-1))
        log.writer.begin_epoch(4)
        log.writer.append(batch(2, magic=0))
        assert log.writer.epochs == ((2, 0), (4, 2))


def test_a_truncation_to_the_end_forgets_an_epoch_that_had_no_records(path: Path) -> None:
    with opened(path) as log:
        log.writer.append(batch(0, 1, leader_epoch=1))
        log.writer.begin_epoch(3)
        log.writer.truncate_to(2)
        assert log.end_offset == 2
        assert log.writer.epochs == ((1, 0),)
        assert read_epochs(path / LEADER_EPOCHS) == [EpochEntry(1, 0)]


def test_leader_epochs_are_noted_where_they_begin(path: Path) -> None:
    with opened(path) as log:
        for offset, epoch in enumerate((0, 0, 2, 2, 5)):
            log.writer.append(batch(offset, leader_epoch=epoch))
        expected = [EpochEntry(0, 0), EpochEntry(2, 2), EpochEntry(5, 4)]
        assert read_epochs(path / LEADER_EPOCHS) == expected
        log.writer.truncate_to(3)
        assert read_epochs(path / LEADER_EPOCHS) == expected[:2]


def test_on_a_full_disk_memory_changes_and_the_next_change_is_written(path: Path) -> None:
    disk = FaultyDisk(path)
    epochs = LeaderEpochs(path, disk, [])
    epochs.begin(1, 0)
    epochs.begin(3, 5)
    disk.fill(is_full=True)
    headers = list(MemoryRecords(batch(7, leader_epoch=4)).batches())
    with pytest.raises(DiskFullError):
        epochs.begin(4, 7)
    with pytest.raises(DiskFullError):
        epochs.add(headers)
    assert list(epochs.entries) == [EpochEntry(1, 0), EpochEntry(3, 5)]
    with pytest.raises(DiskFullError):
        epochs.truncate_from_end(5)
    assert list(epochs.entries) == [EpochEntry(1, 0)]
    disk.fill(is_full=False)
    epochs.flush()
    assert read_epochs(path / LEADER_EPOCHS) == [EpochEntry(1, 0)]


def test_an_epoch_begins_once_and_one_with_records_stays(tmp_path: Path) -> None:
    """The same holds if a batch of an older epoch follows, as in the log of a faulty broker."""
    epochs = LeaderEpochs(tmp_path, UNSYNCED, [])
    epochs.begin(5, 0)
    epochs.begin(5, 3)
    assert epochs.entries == ((5, 0),)
    epochs.add(list(MemoryRecords(batch(0, leader_epoch=5)).batches()))
    epochs.add(list(MemoryRecords(batch(1, leader_epoch=3)).batches()))
    assert epochs.entries == ((5, 0),)


def test_epochs_that_a_full_disk_delayed_are_written_with_the_next_append(tmp_path: Path) -> None:
    """The same holds if that batch has no new epoch."""
    disk = FaultyDisk(tmp_path)
    epochs = LeaderEpochs(tmp_path, disk, [])
    epochs.begin(1, 0)
    epochs.begin(2, 5)
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError):
        epochs.truncate_from_end(5)
    disk.fill(is_full=False)
    assert read_epochs(tmp_path / LEADER_EPOCHS) == [EpochEntry(1, 0), EpochEntry(2, 5)]
    epochs.add(list(MemoryRecords(batch(5, leader_epoch=1)).batches()))
    assert read_epochs(tmp_path / LEADER_EPOCHS) == [EpochEntry(1, 0)] == list(epochs.entries)


def test_all_epochs_of_one_append_are_added(path: Path) -> None:
    with opened(path) as log:
        log.writer.append(batch(0, leader_epoch=1))
        log.writer.append(batch(1, leader_epoch=1) + batch(2, leader_epoch=2))
        log.writer.append(batch(3, leader_epoch=3) + batch(4, leader_epoch=3) + batch(5))
        log.writer.append(batch(6) + batch(7, leader_epoch=4))
        assert log.writer.epochs == ((1, 0), (2, 2), (3, 3), (4, 7))
    assert read_epochs(path / LEADER_EPOCHS) == [(1, 0), (2, 2), (3, 3), (4, 7)]
