"""The leader epoch of an exported record: from its batch, or else from the broker's checkpoint."""

from pathlib import Path

import pytest

from downconvert.spark.jobs.export.export_epochs import UNKNOWN, facts_of, known_epoch
from downconvert.spark.logs.trees import find_partitions
from tests.downconvert.storage.logs import batch, segment


def known(path: Path, offset: int) -> int:
    (log,) = find_partitions([str(path)])
    return known_epoch(log, facts_of(log), offset)


@pytest.mark.parametrize(("offset", "epoch"), [(1, 2), (4, 2), (5, 7), (8, 7), (9, 7), (12, 7)])
def test_a_batch_says_the_epoch_of_its_records(tmp_path: Path, offset: int, epoch: int) -> None:
    """Before an offset is the record that counts."""
    segment(
        tmp_path / "a-0", 0, *(batch(at, at + 3, leader_epoch=2 if not at else 7) for at in (0, 4))
    )
    (tmp_path / "a-0" / "leader-epoch-checkpoint").write_text("0\n2\n2 0\n7 4\n")
    assert known(tmp_path, offset) == epoch


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, UNKNOWN), (1, 2), (4, 2), (5, 7), (9, 7), (10, 9), (40, 9)]
)
def test_a_checkpoint_says_the_epochs_of_records_that_compaction_has_removed(
    tmp_path: Path, offset: int, epoch: int
) -> None:
    segment(tmp_path / "a-0", 0)
    (tmp_path / "a-0" / "leader-epoch-checkpoint").write_text("0\n3\n2 0\n7 4\n9 9\n")
    assert known(tmp_path, offset) == epoch
    (tmp_path / "a-0" / "leader-epoch-checkpoint").unlink()
    assert known(tmp_path, offset) == UNKNOWN
