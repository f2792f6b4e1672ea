"""A broker's directory: which logs there are, opened when they are asked for."""

from pathlib import Path

import pytest

from downconvert.storage import LogDir, TopicPartition
from downconvert.storage.checkpoint import read_offsets
from records import read

from .logs import UNSYNCED, batch, offsets


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


def test_checkpoints_may_name_partitions_that_are_not_there(real: Path) -> None:
    with LogDir.open(real / "3.9.1" / "log-killed") as log_dir:
        assert set(log_dir.high_watermarks) > set(log_dir.logs)
        assert log_dir.high_watermarks[TopicPartition("none-ct", 0)] == 262


def test_a_log_is_made_and_found_again(tmp_path: Path) -> None:
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
def test_a_name_that_no_topic_has_is_a_value_error(tmp_path: Path, topic: str) -> None:
    with (
        LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir,
        pytest.raises(ValueError, match="name of a partition"),
    ):
        log_dir.logs.create(TopicPartition(topic, 0))


def test_closing_notes_up_to_where_everything_is_safe(tmp_path: Path) -> None:
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


def test_an_abandoned_directory_is_as_after_a_kill(tmp_path: Path) -> None:
    log_dir = LogDir.open(tmp_path, writable=True)
    log_dir.logs.create(TopicPartition("t", 0)).writer.append(batch(0, 1))
    log_dir.abandon()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with LogDir.open(tmp_path, writable=True) as found:
        log = found.logs[TopicPartition("t", 0)]
        assert log.writer.recovery.checked  # it was read again
        assert log.end_offset == 2


def test_high_watermarks_are_noted_by_who_may_write(tmp_path: Path) -> None:
    noted = {TopicPartition("t", 0): 7, TopicPartition("u", 3): 0}
    with LogDir.open(tmp_path, writable=True) as log_dir:
        log_dir.note_high_watermarks(noted)
    log_dir = LogDir.open(tmp_path)
    assert log_dir.high_watermarks == noted
    with pytest.raises(ValueError, match="open for reading only"):
        log_dir.note_high_watermarks({})
