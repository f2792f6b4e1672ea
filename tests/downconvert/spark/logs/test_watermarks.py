"""High watermarks are what brokers have noted; where nobody notes any, there is no limit."""

from pathlib import Path

import pytest

from downconvert.spark.logs.watermarks import HighWatermarks
from downconvert.storage import TopicPartition
from downconvert.storage.names import OFFSET_MAX
from tests.downconvert.spark.reading import packed, partition, rows
from tests.downconvert.storage.logs import batch

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_high_watermarks_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    directory = str(tmp_path / "a-0")
    assert HighWatermarks().of(A, directory) == OFFSET_MAX
    path = tmp_path / "replication-offset-checkpoint"
    path.write_text("0\n1\na 0 7\n")
    watermarks = HighWatermarks()
    assert watermarks.of(A, directory) == 7
    with pytest.warns(RuntimeWarning, match="has no high watermark of b-0"):
        assert watermarks.of(B, str(tmp_path / "b-0")) == 0
    path.write_text("0\n2\na 0 7\n")
    with pytest.warns(RuntimeWarning, match="this checkpoint counts as missing"):
        assert HighWatermarks().of(A, directory) == OFFSET_MAX


def test_a_query_goes_to_the_end_by_default(tmp_path: Path) -> None:
    partition(tmp_path, batch(0, 1, 2) + batch(3, 4), "a-0")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\na 0 2\n")
    assert len(rows(tmp_path)) == 5
    assert [row["offset"] for row in rows(tmp_path, stopAtHighWatermark=True)] == [0, 1]


@pytest.mark.parametrize("highest", [1, 2])
def test_the_highest_of_the_copies_counts(tmp_path: Path, highest: int) -> None:
    """Followers learn it later. The third broker has no checkpoint."""
    for number in (1, 2, 3):
        broker = tmp_path / f"b{number}"
        partition(broker, batch(0, 1, 2) + batch(3, 4) + batch(5, 6), "a-0")
        if number < 3:
            noted = 5 if number == highest else 3
            (broker / "replication-offset-checkpoint").write_text(f"0\n1\na 0 {noted}\n")
    assert [row["offset"] for row in rows(tmp_path, stopAtHighWatermark=True)] == list(range(5))


@pytest.mark.parametrize("zeros", [0, 4096])
@pytest.mark.parametrize("leader_has_epochs", [False, True])
def test_the_high_watermark_of_an_empty_copy_does_not_count(
    tmp_path: Path, leader_has_epochs: bool, zeros: int
) -> None:
    """The leader's directory has no checkpoint: nothing limits the query."""
    leader = partition(tmp_path / "b1", batch(5, 6) + batch(7), "a-0", 5)
    if leader_has_epochs:
        (leader / "leader-epoch-checkpoint").write_text("0\n1\n0 5\n")
    partition(tmp_path / "b2", bytes(zeros), "a-0", 5)
    (tmp_path / "b2" / "replication-offset-checkpoint").write_text("0\n1\na 0 0\n")
    assert [row["offset"] for row in rows(tmp_path, stopAtHighWatermark=True)] == [5, 6, 7]


@pytest.mark.parametrize("is_packed", [False, True])
def test_the_high_watermark_of_a_copy_counts_that_has_no_whole_batch(
    tmp_path: Path, is_packed: bool
) -> None:
    """Its last segment, which begins where the other copy ends, was cut off."""
    logs = tmp_path / "logs"
    for name, data, noted in (("b1", batch(5, 6)[:-9], 4), ("b2", batch(0, 1, 2, 3, 4), 0)):
        partition(logs / name, data, "a-0", 5 if name == "b1" else 0)
        (logs / name / "replication-offset-checkpoint").write_text(f"0\n1\na 0 {noted}\n")
    path = packed(logs) if is_packed else logs
    assert [row["offset"] for row in rows(path, stopAtHighWatermark=True)] == list(range(4))


@pytest.mark.parametrize("count", [0, 2])
def test_a_high_watermark_of_0_counts_if_its_copy_has_records(tmp_path: Path, count: int) -> None:
    """The third broker is new, and the leader's has no checkpoint."""
    for name, data in (("b1", batch(0, 1, 2)), ("b2", batch(0, 1) * (count > 0)), ("b3", b"")):
        partition(tmp_path / name, data, "a-0")
        if name != "b1":
            (tmp_path / name / "replication-offset-checkpoint").write_text("0\n1\na 0 0\n")
    assert len(rows(tmp_path, stopAtHighWatermark=True)) == (0 if count else 3)


@pytest.mark.parametrize(("noted", "given", "end"), [(2, 4, 2), (4, 2, 2), (9, 3, 3), (3, 9, 3)])
def test_a_query_ends_at_the_high_watermark_or_before(
    tmp_path: Path, noted: int, given: int, end: int
) -> None:
    partition(tmp_path, batch(0, 1, 2) + batch(3, 4), "a-0")
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\na 0 {noted}\n")
    options = {"stopAtHighWatermark": True, "endingOffsets": f'{{"a":{{"0":{given}}}}}'}
    assert [row["offset"] for row in rows(tmp_path, **options)] == list(range(end))
