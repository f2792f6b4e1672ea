"""Counting the contents of a log."""

from pathlib import Path

import pytest

from downconvert.storage import Log, LogDir, TopicPartition
from downconvert.storage.inspection import Inspection, Share, inspect_log
from records.formats import Codec

from .logs import batch, segment


def test_the_counts_of_a_brokers_directory_are_right(real: Path) -> None:
    """The counts are those of another parser of the same directory."""
    total = Inspection()
    with LogDir.open(real / "2.8.2" / "log") as log_dir:
        for log in log_dir.logs.values():
            total.add(inspect_log(log, deep=True))
    assert (total.segments, total.batches, total.records) == (77, 2087, 10598)
    assert {magic for magic, _ in total.shares} == {0, 1, 2}
    assert total.damages == []
    assert total.tail_bytes == 0


def test_formats_codecs_and_timestamps_are_counted(tmp_path: Path) -> None:
    parts = [
        batch(0, magic=0),
        batch(1, 2, magic=1, codec=Codec.GZIP),
        batch(3, 4, 5, codec=Codec.LZ4),
        batch(6, timestamp=-1),
    ]
    segment(tmp_path / "t-0", 0, *parts, b"torn")
    found = inspect_log(Log.open(tmp_path / "t-0"))
    assert found.shares == {
        (0, Codec.NONE): Share(1, len(parts[0]), 1),
        (1, Codec.GZIP): Share(1, len(parts[1]), 0),  # it does not say
        (2, Codec.LZ4): Share(1, len(parts[2]), 3),
        (2, Codec.NONE): Share(1, len(parts[3]), 1),
    }
    assert (found.oldest, found.newest, found.tail_bytes) == (20, 50, 4)
    assert found.records_with_headers is None
    deep = inspect_log(Log.open(tmp_path / "t-0"), deep=True)
    assert deep.shares[1, Codec.GZIP].records == 2
    assert deep.records_with_headers == 0


def test_records_that_an_old_client_would_miss_are_counted(real: Path) -> None:
    with LogDir.open(real / "3.9.1" / "log") as log_dir:
        found = inspect_log(log_dir.logs[TopicPartition("txn-none", 0)], deep=True)
        mixed = inspect_log(log_dir.logs[TopicPartition("none-ct", 0)], deep=True)
    assert found.aborted_records > 0
    assert found.control_batches > 0
    assert found.transactional_batches > found.aborted_batches > 0
    assert mixed.records_with_headers


@pytest.mark.parametrize("deep", [False, True])
def test_damage_is_reported_and_earlier_batches_are_counted(tmp_path: Path, deep: bool) -> None:
    segment(tmp_path / "t-0", 0, batch(0), b"x" * 50, batch(1))
    segment(tmp_path / "t-0", 10, batch(10))
    found = inspect_log(Log.open(tmp_path / "t-0"), deep=deep)
    assert found.records == 2
    assert len(found.damages) == 1
    assert f"byte {len(batch(0))}" in found.damages[0]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_sum_has_the_oldest_and_the_newest_time_of_all(order: tuple[int, ...]) -> None:
    """Logs without timestamps do not count."""
    logs = [Inspection(oldest=50, newest=90), Inspection(), Inspection(oldest=20, newest=60)]
    total = Inspection()
    for number in order:
        total.add(logs[number])
    assert (total.oldest, total.newest) == (20, 90)
