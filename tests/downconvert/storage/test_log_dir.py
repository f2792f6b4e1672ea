"""A broker's directory: its logs, which are opened on request."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from downconvert.storage import (
    DiskFullError,
    Log,
    LogConfig,
    LogDir,
    LogDirOfflineError,
    TopicPartition,
)
from downconvert.storage.checkpoints.checkpoint import read_offsets
from downconvert.storage.disk.faulty_disk import FaultyDisk
from records import read

from .logs import UNSYNCED, UnsyncedDisk, batch, offsets, segment


def test_logs_are_found_by_topic_and_partition(real: Path) -> None:
    with LogDir.open(real / "3.9.1" / "log") as log_dir:
        assert TopicPartition("rolled", 0) in log_dir.logs
        assert log_dir.logs[TopicPartition("rolled", 0)] is log_dir.logs[("rolled", 0)]  # type: ignore[index]
        assert len(log_dir.logs) == len(list(log_dir.logs)) == 44
        assert list(log_dir.logs) == sorted(log_dir.logs)
        assert TopicPartition("rolled", 1) not in log_dir.logs
        with pytest.raises(KeyError):
            log_dir.logs[TopicPartition("none", 0)]


def test_partitions_that_are_being_deleted_or_moved_are_not_logs(tmp_path: Path) -> None:
    for name in ("a-0", "b-1.0f1e2d3c4b5a69788796a5b4c3d2e1f0-delete", "remote", "c-x"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    assert list(LogDir.open(tmp_path).logs) == [TopicPartition("a", 0)]


def test_checkpoints_may_name_missing_partitions(real: Path) -> None:
    with LogDir.open(real / "3.9.1" / "log-killed") as log_dir:
        assert set(log_dir.high_watermarks) > set(log_dir.logs)
        assert log_dir.high_watermarks[TopicPartition("none-ct", 0)] == 262


def test_a_created_log_is_found_again(tmp_path: Path) -> None:
    partition = TopicPartition("new.topic", 3)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log_dir.logs.create(partition).writer.append(batch(0, 1))
        assert log_dir.logs.create(partition).end_offset == 2
    with LogDir.open(tmp_path) as log_dir:
        assert offsets(log_dir.logs[partition].records()) == [0, 1]
        with pytest.raises(ValueError, match="reading only"):
            log_dir.logs.create(partition)


def test_a_deleted_log_leaves_nothing_and_its_name_can_be_used_again(tmp_path: Path) -> None:
    partition = TopicPartition("x" * 247, 3)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log = log_dir.logs.create(partition)
        log.writer.append(batch(0, 1))
        log.writer.delete_records(1)
        (log.path / "folder").mkdir()
        (log.path / "folder" / "file").touch()
        being_sent = log.read(1, 1000)
        log_dir.logs.delete(partition)
        assert list(log_dir.logs) == []
        assert offsets(read(being_sent)) == [0, 1]
        assert not [path for path in tmp_path.iterdir() if path.is_dir()]
        again = log_dir.logs.create(partition)
        assert (again.start_offset, again.end_offset) == (0, 0)
        with pytest.raises(KeyError):
            log_dir.logs.delete(TopicPartition("none", 0))
    with LogDir.open(tmp_path) as log_dir, pytest.raises(ValueError, match="reading only"):
        log_dir.logs.delete(partition)


@pytest.mark.parametrize("topic", ["", "a/b", "x" * 250, "é"])
def test_an_invalid_topic_name_is_a_value_error(tmp_path: Path, topic: str) -> None:
    with (
        LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir,
        pytest.raises(ValueError, match="name of a partition"),
    ):
        log_dir.logs.create(TopicPartition(topic, 0))


def test_closing_writes_the_recovery_points(tmp_path: Path) -> None:
    points = tmp_path / "recovery-point-offset-checkpoint"
    points.write_text("0\n1\nother 0 7\n")
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log_dir.logs.create(TopicPartition("a", 0)).writer.append(batch(0, 1))
        log_dir.logs.create(TopicPartition("b", 0))
    expected = {("other", 0): 7, ("a", 0): 2}
    assert read_offsets(points) == expected


def test_after_a_crash_every_log_is_recovered_before_the_directory_counts_as_clean(
    tmp_path: Path,
) -> None:
    for number in range(3):
        directory = tmp_path / f"topic-{number}"
        directory.mkdir()
        (directory / "00000000000000000000.log").write_bytes(batch(0) + b"torn")
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log_dir.logs[TopicPartition("topic", 1)]  # the others are not asked for
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    for log in tmp_path.glob("*/*.log"):
        assert log.read_bytes() == batch(0)


def test_a_missing_directory_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        LogDir.open(tmp_path / "none")


def test_an_abandoned_directory_looks_like_after_a_kill(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path, writable=True)
    log_dir.logs.create(TopicPartition("t", 0)).writer.append(batch(0, 1))
    log_dir.abandon()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with LogDir.open(tmp_path, writable=True) as found:
        log = found.logs[TopicPartition("t", 0)]
        assert log.writer.recovery.checked  # it was read again
        assert log.end_offset == 2


def test_only_a_writer_stores_high_watermarks(tmp_path: Path) -> None:
    noted = {TopicPartition("t", 0): 7, TopicPartition("u", 3): 0}
    with LogDir.open(tmp_path, writable=True) as log_dir:
        log_dir.note_high_watermarks(noted)
    log_dir = LogDir.open(tmp_path)
    assert log_dir.high_watermarks == noted
    with pytest.raises(ValueError, match="open for reading only"):
        log_dir.note_high_watermarks({})


def test_partitions_are_deleted_on_a_full_disk_and_do_not_come_back(tmp_path: Path) -> None:
    partition = TopicPartition("t", 0)
    disk = FaultyDisk(tmp_path)
    with LogDir.open(tmp_path, writable=True, files=disk) as log_dir:
        log = log_dir.logs.create(partition)
        log.writer.append(batch(0, 1))
        log.writer.delete_records(1)
        disk.fill(is_full=True)
        log_dir.logs.delete(partition)
        assert list(log_dir.logs) == []
        with pytest.raises(DiskFullError):  # what is noted of the old one would be the new one's
            log_dir.logs.create(partition)
        disk.fill(is_full=False)
        assert log_dir.logs.create(partition).start_offset == 0
    assert read_offsets(tmp_path / "log-start-offset-checkpoint") == {}


def test_a_new_partition_does_not_inherit_offsets_of_a_deleted_one(tmp_path: Path) -> None:
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        assert log_dir.logs.create(TopicPartition("t", 0)).start_offset == 0


def test_a_failed_deletion_leaves_the_partition_unchanged(tmp_path: Path) -> None:
    class Stubborn(UnsyncedDisk):
        def rename(self, source: Path, target: Path) -> None:
            if target.name.endswith("-delete"):
                raise PermissionError(f"{source} stays")
            super().rename(source, target)

    partition = TopicPartition("t", 0)
    with LogDir.open(tmp_path, writable=True, files=Stubborn()) as log_dir:
        log_dir.logs.create(partition).writer.append(batch(0, 1))
        with pytest.raises(PermissionError):
            log_dir.logs.delete(partition)
        log = log_dir.logs[partition]
        log.writer.append(batch(2))
        assert offsets(log.records()) == [0, 1, 2]


def test_a_partition_is_deleted_even_if_a_rename_needs_space(tmp_path: Path) -> None:
    class Full(UnsyncedDisk):
        def rename(self, source: Path, target: Path) -> None:
            if target.name.endswith("-delete"):
                raise DiskFullError(str(target))
            super().rename(source, target)

    partition = TopicPartition("t", 0)
    with LogDir.open(tmp_path, writable=True, files=Full()) as log_dir:
        log_dir.logs.create(partition).writer.append(batch(0, 1))
        log_dir.logs.delete(partition)
        assert list(log_dir.logs) == []
        assert not (tmp_path / "t-0").exists()


def test_remains_of_deleted_partitions_are_removed_at_the_next_start(tmp_path: Path) -> None:
    left = tmp_path / f"t-0.{'0' * 32}-delete"
    kept = [tmp_path / f"t-0.{'0' * 32}-stray", tmp_path / "t-1", tmp_path / "mine-delete"]
    for directory in (left, *kept):
        (directory / "sub").mkdir(parents=True)
        (directory / "sub" / "file").touch()
    LogDir.open(tmp_path).close()
    assert left.exists()  # who only reads changes nothing
    LogDir.open(tmp_path, writable=True, files=UNSYNCED).close()
    assert not left.exists()
    assert all((directory / "sub" / "file").exists() for directory in kept)


def test_a_disk_that_is_full_at_close_loses_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    log_dir = LogDir.open(tmp_path, writable=True, files=disk)
    log_dir.logs.create(TopicPartition("t", 0)).writer.append(batch(0, 1))
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError):
        log_dir.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    left = tmp_path / "left"
    disk.survivors(left)
    with LogDir.open(left) as found:  # it was flushed: that needs no room
        assert offsets(found.logs[TopicPartition("t", 0)].records()) == [0, 1]


@pytest.mark.parametrize("writable", [False, True])
def test_an_empty_path_is_not_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for opened in (Log.open, LogDir.open):
        with pytest.raises(ValueError, match="an empty path"):
            opened("", writable=writable)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["first", "at the next start"])
def test_deleting_a_linked_partition_keeps_the_links_target(tmp_path: Path, when: str) -> None:
    outside, log_dir_path = tmp_path / "outside", tmp_path / "logs"
    outside.mkdir()
    (outside / "precious").write_bytes(b"of somebody else")
    log_dir_path.mkdir()
    name = "t-0" if when == "first" else f"t.{'0' * 32}-delete"
    (log_dir_path / name).symlink_to(outside)
    with LogDir.open(log_dir_path, writable=True, files=UNSYNCED) as log_dir:
        if when == "first":
            log_dir.logs.delete(TopicPartition("t", 0))
            assert not [path for path in log_dir_path.iterdir() if path.is_symlink()]
    assert (outside / "precious").read_bytes() == b"of somebody else"


def spoil_log(partition: Path) -> None:
    os.mkfifo(partition / "00000000000000000002.log")


def spoil_link(partition: Path) -> None:
    (partition / "00000000000000000002.log").symlink_to("nowhere")


def spoil_link_to_itself(partition: Path) -> None:
    link = partition / "00000000000000000002.log"
    link.symlink_to(link)


def spoil_directory(partition: Path) -> None:
    shutil.rmtree(partition)
    partition.symlink_to(partition)


def spoil_dangling_directory(partition: Path) -> None:
    shutil.rmtree(partition)
    partition.symlink_to("nowhere")


def spoil_index(partition: Path) -> None:
    os.mkfifo(partition / "00000000000000000000.txnindex")


def spoil_metadata(partition: Path) -> None:
    (partition / "partition.metadata").write_bytes(b"version: 7\xff")


def spoil_metadata_pipe(partition: Path) -> None:
    os.mkfifo(partition / "partition.metadata")


SPOILT = [
    spoil_log,
    spoil_link,
    spoil_link_to_itself,
    spoil_directory,
    spoil_dangling_directory,
    spoil_index,
    spoil_metadata,
    spoil_metadata_pipe,
]


@pytest.mark.parametrize("spoil", SPOILT)
@pytest.mark.parametrize("writable", [False, True])
def test_a_bad_partition_is_offline_and_the_others_are_served(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], None],
    *,
    writable: bool,
) -> None:
    good, bad = TopicPartition("t", 0), TopicPartition("t", 1)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        for partition in (good, bad):
            log_dir.logs.create(partition).writer.append(batch(0, 1))
    spoil(tmp_path / str(bad))
    with LogDir.open(tmp_path, writable=writable, files=UNSYNCED) as log_dir:
        assert offsets(log_dir.logs.open_or_offline(good).records()) == [0, 1]
        for _ in range(2):  # it is looked at again, and said once
            log = log_dir.logs.open_or_offline(bad)
            assert log.offline_reason is not None
            assert list(log.records()) == []
            with pytest.raises(LogDirOfflineError):
                log.writer.flush()
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1
        assert "t-1 is offline" in said[0]
        if writable:
            log_dir.logs.delete(bad)
            assert list(log_dir.logs) == [good]


def test_an_offline_partition_prevents_the_mark_of_a_clean_shutdown(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"t-{number}").mkdir()
    spoil_log(tmp_path / "t-1")
    LogDir.open(tmp_path, writable=True, files=UNSYNCED).close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    (tmp_path / "t-1" / "00000000000000000002.log").unlink()
    LogDir.open(tmp_path, writable=True, files=UNSYNCED).close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_partition_that_failed_to_open_prevents_the_mark_of_a_clean_shutdown(
    tmp_path: Path,
) -> None:
    """The same holds if the last shutdown was clean: a recovery may have been interrupted."""
    bad = TopicPartition("t", 1)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log_dir.logs.create(bad).writer.append(batch(0, 1))
    spoil_index(tmp_path / str(bad))
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        assert log_dir.logs.open_or_offline(bad).offline_reason is not None
        assert log_dir.logs.unsure == [bad]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_log_that_failed_to_open_is_recovered_as_after_a_crash(tmp_path: Path) -> None:
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        for partition in (one, other):
            log_dir.logs.create(partition).writer.append(batch(0, 1))
    (tmp_path / str(one) / "00000000000000000000.timeindex").unlink()
    disk = FaultyDisk(tmp_path)
    log_dir = LogDir.open(tmp_path, writable=True, files=disk)
    disk.fill(is_full=True)
    with pytest.raises(DiskFullError):
        log_dir.logs[one]
    disk.fill(is_full=False)
    assert len(log_dir.logs[one].writer.recovery.checked) == 1
    assert not log_dir.logs[other].writer.recovery.checked  # it was closed
    log_dir.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_deleted_partition_leaves_no_entries_in_checkpoints(tmp_path: Path) -> None:
    gone, kept = TopicPartition("t", 0), TopicPartition("t", 1)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        for partition in (gone, kept):
            writer = log_dir.logs.create(partition).writer
            writer.append(batch(0, 1))
            writer.roll()
            writer.delete_records(1)
            writer.note_cleaner_point(1)
        log_dir.logs.delete(gone)
        for name in ("recovery-point", "log-start", "cleaner"):
            assert list(read_offsets(tmp_path / f"{name}-offset-checkpoint")) == [kept]


def test_a_recovered_and_rolled_log_has_all_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="downconvert.storage")
    whole = batch(0, 1)
    segment(tmp_path / "t-0", 0, whole, whole[:70])
    config = LogConfig(segment_bytes=len(whole))
    with LogDir.open(tmp_path, writable=True, config=config) as log_dir:
        log = log_dir.logs[TopicPartition("t", 0)]
        log.writer.append(batch(2, 3))
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == [
        (
            "WARNING",
            "t-0 is recovered up to offset 2: 1 segments were read again, 70 bytes cut off",
        ),
        ("INFO", "t-0: a new segment begins at offset 2 (segment.bytes)"),
    ]
