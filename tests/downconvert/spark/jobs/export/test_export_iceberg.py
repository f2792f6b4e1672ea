"""An Iceberg table's commits: what is removed, and what is done where others commit meanwhile."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Transaction

from downconvert.spark.jobs.export.export_iceberg import TRIES, IcebergTarget
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage import TopicPartition
from tests.downconvert.spark.exporting import exported
from tests.downconvert.spark.reading import partition
from tests.downconvert.spark.table_job import catalog_of, properties_of
from tests.downconvert.storage.logs import batch

DAY = 86_400_000
A, ANY, TABLE = TopicPartition("a", 1), "read_uncommitted", "lake.events"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three logs, two of them of one topic."""
    path = tmp_path / "logs"
    for name in ("a-1", "a-2", "ab-1"):
        partition(path, batch(0, 1, 2, 3, 4, timestamp=DAY), name)
    return path


def opened(home: Path) -> IcebergTarget:
    return IcebergTarget(TABLE, "tests", properties_of(home))


def rows(home: Path) -> list[tuple[str, int, int]]:
    found = catalog_of(home).load_table(TABLE).scan().to_arrow().to_pylist()
    return sorted((row["topic"], row["partition"], row["offset"]) for row in found)


def whole(*offsets: int) -> list[tuple[str, int, int]]:
    """All rows, with these offsets of a-1."""
    others = [(topic, number, n) for topic, number in (("a", 2), ("ab", 1)) for n in range(5)]
    return sorted([("a", 1, offset) for offset in offsets] + others)


def test_records_are_removed_of_one_partition_between_two_offsets(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(monkeypatch, source, opened(tmp_path))
    opened(tmp_path).remove(A, 1, 3)
    assert rows(tmp_path) == whole(0, 3, 4)
    assert opened(tmp_path).read(ANY).ranges[A] == [(0, 5)]


def test_a_commit_of_maintenance_meanwhile_is_no_reason_to_fail(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(monkeypatch, source, opened(tmp_path))
    partition(source, batch(5, timestamp=DAY), "a-1", 5)
    target = opened(tmp_path)
    for name in ("x", "y"):  # other properties, and other rows
        with catalog_of(tmp_path).load_table(TABLE).transaction() as change:
            change.set_properties({name: name})
    catalog_of(tmp_path).load_table(TABLE).delete("topic == 'ab'")
    exported(monkeypatch, source, target)
    assert rows(tmp_path) == [row for row in whole(*range(6)) if row[0] != "ab"]
    assert opened(tmp_path).read(ANY).ranges[A] == [(0, 6)]


def test_a_commit_of_another_export_meanwhile_is(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(monkeypatch, source, opened(tmp_path))
    partition(source, batch(5, timestamp=DAY), "a-1", 5)
    target, there = opened(tmp_path), opened(tmp_path).read(ANY)
    exported(monkeypatch, source, opened(tmp_path))
    with pytest.raises(JobError, match="another export was committed meanwhile"):
        target.write(there, [])
    assert opened(tmp_path).read(ANY).ranges[A] == [(0, 6)]


def test_a_table_that_changes_all_the_time_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = opened(tmp_path)
    tried: list[str] = []

    def conflict(change: Transaction) -> Any:
        tried.append(change.table_metadata.properties["commit.retry.num-retries"])
        raise CommitFailedException("another commit")

    monkeypatch.setattr(Transaction, "commit_transaction", conflict)
    with pytest.raises(JobError, match=r"and this one was not; run it again \(another commit\)"):
        target.write(target.read(ANY), [])
    assert tried == ["0"] * TRIES


def test_a_table_that_another_program_makes_meanwhile_is_used(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = SqlCatalog.create_namespace_if_not_exists

    def overtaken(catalog: SqlCatalog, namespace: str) -> None:
        monkeypatch.setattr(SqlCatalog, "create_namespace_if_not_exists", create)
        exported(monkeypatch, source, opened(tmp_path))
        create(catalog, namespace)

    monkeypatch.setattr(SqlCatalog, "create_namespace_if_not_exists", overtaken)
    assert opened(tmp_path).read(ANY).ranges[A] == [(0, 5)]


def test_a_table_of_other_columns_is_refused_though_it_is_empty(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_namespace("lake")
    catalog.create_table(TABLE, pa.schema([("offset", pa.int64())]))
    with pytest.raises(JobError, match=f"^{TABLE} is a table that no export has made"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["events", ".events"])
def test_a_name_without_a_namespace_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(JobError, match="a table's name has a namespace"):
        IcebergTarget(name, "tests", properties_of(tmp_path))
