"""A log goes offline if its active file is moved or replaced."""

from pathlib import Path

import pytest

from downconvert.storage import LogDir, LogDirOfflineError, TopicPartition
from downconvert.storage.names import CLEAN_SHUTDOWN, Kind, file_name
from tests.downconvert.storage.logs import UNSYNCED, batch, offsets
from tests.downconvert.storage.test_log_writer import opened


def test_a_log_goes_offline_if_its_file_is_moved(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_file, elsewhere = path / file_name(0, Kind.LOG), path.parent / "elsewhere"
    with opened(path) as log:
        log.writer.append(batch(0))
        assert log.writer.is_in_place()
        log_file.rename(elsewhere)
        log_file.write_bytes(elsewhere.read_bytes())  # the same bytes, but another file
        for _ in range(2):
            assert not log.writer.is_in_place()
        assert str(log_file) in (log.offline_reason or "")
        for change in (
            lambda: log.writer.append(batch(1)),
            log.writer.flush,
            log.writer.roll,
            lambda: log.writer.truncate_to(0),
            lambda: log.writer.truncate_fully_and_start_at(0),
            lambda: log.writer.delete_records(1),
            lambda: log.writer.remove_oldest(1),
        ):
            with pytest.raises(LogDirOfflineError, match="moved away"):
                change()
    assert elsewhere.read_bytes() == log_file.read_bytes() == batch(0)
    assert len([r for r in caplog.records if "is offline" in r.getMessage()]) == 1
    assert not (path.parent / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("how", ["moved", "replaced", "cut"])
def test_a_log_with_closed_files_does_not_write_to_a_replaced_file(path: Path, how: str) -> None:
    with opened(path) as log:
        log.writer.append(batch(0, 1))
        log.writer.release()
        log_file = path / file_name(0, Kind.LOG)
        if how == "cut":
            log_file.write_bytes(b"")
        else:
            log_file.rename(path.parent / "elsewhere")
        if how == "replaced":
            log_file.write_bytes(batch(0, 1))
        with pytest.raises(LogDirOfflineError, match="moved away, replaced or cut"):
            log.writer.append(batch(2))
        assert log_file.exists() == (how != "moved")  # nothing was made in its place


def test_a_directory_with_a_log_that_went_offline_is_not_marked_as_clean(tmp_path: Path) -> None:
    """The log was not flushed. The others are recovered with it, which loses nothing."""
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        for partition in (one, other):
            log_dir.logs.create(partition).writer.append(batch(0))
        file = tmp_path / "t-0" / file_name(0, Kind.LOG)
        file.rename(tmp_path / "elsewhere")
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    (tmp_path / "elsewhere").rename(file)
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        assert offsets(log_dir.logs[one].records()) == offsets(log_dir.logs[other].records()) == [0]
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
