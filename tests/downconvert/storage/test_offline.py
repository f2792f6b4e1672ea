"""A log that cannot be opened is empty, and its files stay as they are."""

from pathlib import Path

import pytest

from downconvert.storage import LogDir, TopicPartition

from .logs import UNSYNCED, batch, segment

PARTITION = TopicPartition("t", 0)


def test_the_files_of_a_partition_with_bad_metadata_are_not_changed(tmp_path: Path) -> None:
    """Not even a torn end is cut off, which a recovery would do."""
    made = segment(tmp_path / str(PARTITION), 0, batch(0, 1), batch(2)[:-1])
    (tmp_path / str(PARTITION) / "partition.metadata").write_text("version: 7")
    names = sorted(path.name for path in made.path().parent.iterdir())
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        log = log_dir.logs.open_or_offline(PARTITION)
        assert log.offline_reason is not None
        assert (log.start_offset, log.end_offset, log.last_stable_offset) == (0, 0, 0)
        assert (list(log.segments), list(log.records()), log.aborted(0, 9)) == ([], [], [])
    assert sorted(path.name for path in made.path().parent.iterdir()) == names
    assert made.path().read_bytes() == batch(0, 1) + batch(2)[:-1]


def test_the_same_problem_is_logged_again_after_it_was_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = tmp_path / str(PARTITION) / "partition.metadata"
    segment(tmp_path / str(PARTITION), 0, batch(0))
    with LogDir.open(tmp_path) as log_dir:
        for expected in (1, 2):
            metadata.write_text("version: 7")
            for _ in range(2):
                assert log_dir.logs.open_or_offline(PARTITION).offline_reason is not None
            assert len(caplog.records) == expected
            metadata.unlink()
            assert log_dir.logs.open_or_offline(PARTITION).offline_reason is None


def test_a_partition_that_is_not_there_is_not_offline(tmp_path: Path) -> None:
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir, pytest.raises(KeyError):
        log_dir.logs.open_or_offline(PARTITION)


def test_a_problem_of_a_deleted_partition_is_logged_again_for_the_next_of_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LogDir.open(tmp_path, writable=True, files=UNSYNCED) as log_dir:
        for expected in (1, 2):
            segment(tmp_path / str(PARTITION), 0, batch(0))
            (tmp_path / str(PARTITION) / "partition.metadata").write_text("version: 7")
            for _ in range(2):
                assert log_dir.logs.open_or_offline(PARTITION).offline_reason is not None
            assert len(caplog.records) == expected
            log_dir.logs.delete(PARTITION)
