"""A run of several steps and partitions: what is noted of each, and what the run says it added."""

from pathlib import Path

import pytest

from downconvert.spark.jobs.export.export_directory import DirectoryNotes
from downconvert.storage import TopicPartition
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.exporting import added, archived, exported
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

DAY = 86_400_000
A, B = TopicPartition("a", 0), TopicPartition("b", 4)

pytestmark = pytest.mark.filterwarnings("ignore:no checkpoint has a high watermark")


def offsets(lake: Path) -> list[tuple[str, int]]:
    return [(row[0], row[2]) for row in archived(lake)]


def test_readable_logs_are_noted_beside_an_unreadable_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = tmp_path / "logs", tmp_path / "lake"
    partition(source, batch(0, 1, 2, timestamp=DAY), "a-0")
    partition(source, batch(0, 1, timestamp=DAY)[:-1] + b"?", "b-4")
    there = exported(monkeypatch, source, lake, skip_damaged=True)
    assert there.ranges[A] == [(0, 3)]
    assert not there.ranges.get(B)
    again, written = added(monkeypatch, source, lake, skip_damaged=True)
    assert (again.ranges[A], written) == ([(0, 3)], [])
    partition(source, batch(0, 1, timestamp=DAY), "b-4")  # the disk was repaired
    there, written = added(monkeypatch, source, lake)
    assert (there.ranges, [one.records for one in written]) == ({A: [(0, 3)], B: [(0, 2)]}, [2])
    assert offsets(lake) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_a_run_says_what_all_of_its_steps_have_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target has offsets in the middle, of another copy."""
    middle, whole, lake = (tmp_path / name for name in ("middle", "whole", "lake"))
    partition(middle, batch(4, 5, timestamp=DAY), "a-0", 4)
    partition(whole, batch(*range(4), timestamp=DAY) + batch(*range(4, 12), timestamp=DAY), "a-0")
    partition(whole, batch(0, timestamp=DAY), "b-4")
    _, written = added(monkeypatch, middle, lake)
    assert [one.records for one in written] == [2]
    there, written = added(monkeypatch, whole, lake)
    assert sorted(one.records for one in written) == [1, 4, 6]
    assert there.ranges == {A: [(0, 12)], B: [(0, 1)]}
    assert offsets(lake) == [*(("a", n) for n in range(12)), ("b", 0)]
    assert len(there.files) == 4
    assert DirectoryNotes(lake).read("read_uncommitted") == there


def test_the_epoch_of_records_that_the_log_has_no_longer_stays_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = tmp_path / "logs", tmp_path / "lake"
    directory = partition(source, batch(0, 1, leader_epoch=3, timestamp=DAY), "a-0")
    assert exported(monkeypatch, source, lake).epochs == {A: {2: 3}}
    (directory / file_name(0, Kind.LOG)).unlink()
    partition(source, batch(5, 6, 7, leader_epoch=4, timestamp=DAY), "a-0", 5)
    with pytest.warns(RuntimeWarning, match="a-0: offsets 2 up to 5 were deleted before they were"):
        there = exported(monkeypatch, source, lake)
    assert there.ranges == {A: [(0, 2), (5, 8)]}
    assert there.epochs == {A: {2: 3, 8: 4}}
    assert DirectoryNotes(lake).read("read_uncommitted").epochs == there.epochs


def test_a_file_whose_note_was_lost_is_named_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = tmp_path / "logs", tmp_path / "lake"
    partition(source, batch(0, 1, timestamp=DAY), "a-0")
    first = exported(monkeypatch, source, lake)
    for note in (lake / "_exported").iterdir():
        note.unlink()
    partition(source, batch(2, 3, 4, timestamp=DAY), "a-0", 2)
    there, written = added(monkeypatch, source, lake)
    assert there.files == first.files | {one.file for one in written}
    assert [one.records for one in written] == [3]
    assert offsets(lake) == [("a", n) for n in range(5)]
