"""A log goes offline if its active file is moved or replaced."""

from pathlib import Path

import pytest

from downconvert.storage import LogDirOfflineError
from downconvert.storage.names import Kind, file_name
from tests.downconvert.storage.logs import batch
from tests.downconvert.storage.test_log_writer import opened, path

__all__ = ["path"]


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
