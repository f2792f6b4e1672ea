"""Which exported offsets a later leader has truncated, by the epochs that an export has noted."""

from pathlib import Path

import pytest

from downconvert.spark.jobs.export.export_epochs import Truncated, facts_of, known_epoch, truncated
from downconvert.spark.jobs.export.export_manifest import Exported, Range
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage import TopicPartition
from tests.downconvert.storage.logs import batch, segment

from .test_export_epochs import A, log


def found(
    path: Path, ranges: list[Range], epochs: dict[int, int], name: TopicPartition = A
) -> Truncated | None:
    (one,) = find_partitions([str(path)])
    there = Exported("read_uncommitted", ranges={name: ranges}, epochs={name: epochs})
    return truncated(one, facts_of(one), there)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_all_exported_offsets_after_a_truncation_are_named(
    tmp_path: Path, checkpoint: bool
) -> None:
    path = log(tmp_path / "logs", (0, 0, 3), (2, 3, 6), (4, 6, 12), checkpoint=checkpoint)
    ranges = [(0, 5), (7, 10), (10, 11)]
    assert found(path, ranges, {5: 0, 10: 2, 11: 4}) == Truncated(A, 3, 11, 0)
    assert found(path, ranges, {10: 2, 5: 0}) == Truncated(A, 3, 11, 0)
    assert found(path, ranges, {5: 2, 10: 2}) == Truncated(A, 6, 11, 2)
    assert found(path, ranges, {5: 2, 10: 4, 11: 4}) is None
    assert found(path, ranges, {}) is None
    # The log has later leaders, so epoch 3 is no longer in it.
    assert found(path, ranges, {5: 3}) == Truncated(A, 3, 11, 3)
    for epoch in (4, 5):  # the log has epoch 4, but only later, and no leader after it
        with pytest.raises(JobError, match=rf"up to 5 in leader epoch {epoch}, .*is of epoch 2"):
            found(path, ranges, {5: epoch})


def test_records_that_retention_has_deleted_are_not_named(tmp_path: Path) -> None:
    path = log(tmp_path, (0, 0, 3), (2, 3, 6), (4, 6, 12))
    (path / "log-start-offset-checkpoint").write_text("0\n1\na 0 4\n")
    assert found(path, [(0, 5)], {5: 3}) == Truncated(A, 4, 5, 3)
    assert found(path, [(0, 6)], {6: 3}) == Truncated(A, 4, 6, 3)
    with pytest.raises(JobError, match="up to 4 in leader epoch 3"):
        found(path, [(0, 4)], {4: 3})


def test_a_record_that_compaction_has_removed_is_not_taken_for_truncated(tmp_path: Path) -> None:
    """The next one is of a later epoch."""
    segment(tmp_path / "a-0", 0, batch(0, leader_epoch=0), batch(5, leader_epoch=1))
    assert found(tmp_path, [(0, 5)], {5: 0}) is None
    assert found(tmp_path, [(0, 4)], {4: 0}) is None
    assert found(tmp_path, [(0, 6)], {6: 0}) == Truncated(A, 5, 6, 0)


def test_the_epoch_of_a_removed_record_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    path = log(tmp_path / "logs", (1, 0, 2), (3, 8, 9), checkpoint=False)
    (path / "a-0" / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n2 4\n3 8\n")
    (one,) = find_partitions([str(path)])
    epochs = [known_epoch(one, facts_of(one), offset) for offset in range(11)]
    assert epochs == [-1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]


def test_a_log_that_is_shorter_now_is_of_the_epoch_of_its_last_batch(tmp_path: Path) -> None:
    for base, epoch in ((0, 0), (2, 0), (4, 1)):
        batches = [batch(at, leader_epoch=epoch) for at in (base, base + 1)]
        segment(tmp_path / "a-0", base, *batches)
    segment(tmp_path / "a-0", 6)
    assert found(tmp_path, [(0, 9)], {9: 0}) == Truncated(A, 4, 9, 0)
    assert found(tmp_path, [(0, 9)], {9: 1}) is None
