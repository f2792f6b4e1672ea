"""Where an export of a log ends that is written meanwhile, or has transactions.

Not here: bounds from options, and damage (test_export_plan.py)."""

from pathlib import Path

from downconvert.spark.jobs.export.export_plan import Settings, bounds_of, end_of
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage import TopicPartition
from downconvert.storage.checkpoints.checkpoint import write_offsets
from downconvert.storage.disk.files import DISK
from downconvert.storage.names import Kind, file_name
from records import ControlRecordType, build_marker
from tests.downconvert.storage.logs import batch, segment

A = TopicPartition("a", 0)


def test_a_transaction_that_ends_behind_the_high_watermark_is_open(tmp_path: Path) -> None:
    """Its marker may still be truncated."""
    sent = batch(2, 3, producer_id=5, producer_epoch=0, transactional=True)
    marker = build_marker(ControlRecordType.COMMIT, offset=4, timestamp=0, producer_id=5)
    segment(tmp_path / "a-0", 0, batch(0, 1), sent, marker, batch(5))
    ends = {}
    for limit in (4, 5, 6):
        write_offsets(DISK, tmp_path / "replication-offset-checkpoint", {A: limit})
        ends[limit] = bounds_of(find_partitions([str(tmp_path)]), Settings(committed=True))[A].end
    assert ends == {4: 2, 5: 5, 6: 6}
    assert bounds_of(find_partitions([str(tmp_path)]), Settings())[A].end == 6


def test_a_log_ends_where_it_does_now_and_not_where_it_did_when_it_was_found(
    tmp_path: Path,
) -> None:
    segment(tmp_path / "a-0", 0, *(batch(n) for n in range(10)))
    (found,) = find_partitions([str(tmp_path)])
    with (tmp_path / "a-0" / file_name(0, Kind.LOG)).open("ab") as file:
        file.write(batch(10, 11, 12))
    assert end_of(found, Settings()) == (13, True)
