"""A Delta table's commits: what they remove, and what they say of the offsets and records."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from downconvert.spark.jobs.export import export_delta
from downconvert.spark.jobs.export.export_delta import APPLICATION, RECORDS, DeltaTarget
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage import TopicPartition
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.exporting import exported
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

DAY = 86_400_000
A, ANY = TopicPartition("a", 1), "read_uncommitted"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three logs, two of them of one topic. One record has no date."""
    path = tmp_path / "logs"
    for name in ("a-1", "a-2", "ab-1"):
        partition(path, batch(0, 1, 2, 3, 4, timestamp=DAY), name)
    partition(path, batch(0, magic=0), "c-0")
    return path


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def rows(place: str) -> list[tuple[str, int, int]]:
    names = ["topic", "partition", "offset"]
    found = DeltaTable(place).to_pyarrow_table(columns=names).to_pylist()
    return sorted((row["topic"], row["partition"], row["offset"]) for row in found)


def whole(*offsets: int) -> list[tuple[str, int, int]]:
    """All rows, with these offsets of a-1."""
    others = [(topic, number, n) for topic, number in (("a", 2), ("ab", 1)) for n in range(5)]
    return sorted([("a", 1, offset) for offset in offsets] + others + [("c", 0, 0)])


def versions(place: str, *names: str) -> list[Any]:
    return [DeltaTable(place).transaction_version(name) for name in names]


def test_records_are_removed_of_one_partition_between_two_offsets(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(monkeypatch, source, DeltaTarget(place))
    DeltaTarget(place).remove(A, 1, 3)
    assert rows(place) == whole(0, 3, 4)
    DeltaTarget(place).remove(A, 9, 99)
    assert rows(place) == whole(0, 3, 4)


def test_a_commit_says_how_many_records_there_are_and_where_each_log_ends(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = (APPLICATION, RECORDS, f"{APPLICATION}/{A}", f"{APPLICATION}/ab-1")
    exported(monkeypatch, source, DeltaTarget(place))
    assert versions(place, *ours) == [1, 16, 5, 5]
    partition(source, batch(8, 9, timestamp=DAY), "a-1", 8)
    (source / "a-1" / file_name(0, Kind.LOG)).unlink()  # by retention
    there = exported(monkeypatch, source, DeltaTarget(place))
    assert there.ranges[A] == [(0, 5), (8, 10)]
    assert versions(place, *ours) == [2, 18, 10, 5]
    DeltaTable(place).delete("topic = 'c'")
    partition(source, batch(5), "ab-1", 5)
    exported(monkeypatch, source, DeltaTarget(place))
    assert versions(place, *ours) == [3, 18, 10, 6]


def test_a_target_that_has_removed_records_counts_those_that_are_left(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(monkeypatch, source, DeltaTarget(place))
    target = DeltaTarget(place)
    there = target.read(ANY, ())
    target.remove(A, 1, 3)
    target.write(there, [])
    assert versions(place, RECORDS) == [14]


def test_a_table_restored_to_before_its_log_begins_is_refused(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(monkeypatch, source, DeltaTarget(place))
    table = DeltaTable(place)
    table.create_checkpoint()
    table.restore(0)
    (Path(place) / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(JobError, match="was restored to version 0, and its log no longer says"):
        DeltaTarget(place).read(ANY, ())


def test_after_a_restore_the_restored_version_counts_and_no_later_one(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []
    for base in (5, 6, 7):
        exported(monkeypatch, source, DeltaTarget(place))
        ends.append(DeltaTarget(place).read(ANY, ()).ranges[A])
        partition(source, batch(base, timestamp=DAY), "a-1", base)
    assert ends == [[(0, 5)], [(0, 6)], [(0, 7)]]
    for version, expected in ((2, ends[1]), (1, ends[0]), (4, ends[1])):
        DeltaTable(place).restore(version)
        assert DeltaTarget(place).read(ANY, ()).ranges[A] == expected
    exported(monkeypatch, source, DeltaTarget(place))
    assert rows(place) == whole(*range(8))


def test_the_last_commit_of_an_export_is_found_behind_any_number_of_others(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that commit, only the end of each log would be known, and not the gap before it."""
    exported(monkeypatch, source, DeltaTarget(place))
    partition(source, batch(8, 9, timestamp=DAY), "a-1", 8)
    (source / "a-1" / file_name(0, Kind.LOG)).unlink()  # by retention
    exported(monkeypatch, source, DeltaTarget(place))
    monkeypatch.setattr(export_delta, "HISTORY", (1, 3, None))
    for _ in range(6):
        assert DeltaTarget(place).read(ANY, (A,)).ranges[A] == [(0, 5), (8, 10)]
        DeltaTable(place).alter.set_table_properties({"delta.appendOnly": "false"})


def test_a_table_restored_to_a_time_is_refused(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta's log then has the time, and no version."""
    exported(monkeypatch, source, DeltaTarget(place))
    before = datetime.now(UTC)
    partition(source, batch(5, timestamp=DAY), "a-1", 5)
    exported(monkeypatch, source, DeltaTarget(place))
    DeltaTable(place).restore(before)
    assert "version" not in DeltaTable(place).history(1)[0]["operationParameters"]
    with pytest.raises(JobError, match="was restored to a time, and its log does not say to which"):
        DeltaTarget(place).read(ANY, ())


@pytest.mark.parametrize("has_files", [False, True])
def test_a_table_that_no_export_has_made_is_refused_if_it_has_rows(
    source: Path, place: str, monkeypatch: pytest.MonkeyPatch, has_files: bool
) -> None:
    exported(monkeypatch, source, DeltaTarget(place))
    data, schema = DeltaTable(place).to_pyarrow_table(), DeltaTable(place).schema()
    other = f"{place}-other"
    made = DeltaTable.create(other, schema, partition_by=["topic", "date"])
    if has_files:
        from deltalake import write_deltalake

        write_deltalake(made, data, mode="append")
        with pytest.raises(JobError, match="is a table that no export has made"):
            DeltaTarget(other).read(ANY, (A,))
    else:
        assert DeltaTarget(other).read(ANY, (A,)).ranges == {}


def test_a_table_of_other_columns_is_refused_though_it_is_empty(place: str) -> None:
    import pyarrow as pa

    DeltaTable.create(place, pa.schema([("offset", pa.int64())]))
    with pytest.raises(JobError, match="is a table that no export has made"):
        DeltaTarget(place)
