"""Readers of tables skip files by their statistics, and find all records that a filter selects."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from downconvert.spark.jobs.export.export_iceberg import BOUNDS
from tests.downconvert.spark.exporting import exported
from tests.downconvert.spark.lakes import Lake
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

DAY: Final = 86_400_000
NO_TIME: Final = 2**62  # milliseconds that no timestamp of Spark has: null
FAR: Final = 400_000 * 365 * DAY // 30  # in a year after 9999
MIDDLE: Final = "1990-01-01T00:00:00+00:00"
KINDS: Final = ("delta", "iceberg")


def files_and_rows(lake: Lake, kind: str, column: str, asked: str, value: Any) -> tuple[int, int]:
    """How many files a reader opens for a filter, and how many rows it gives."""
    table = lake.table()
    if kind == "iceberg":
        text = repr(value) if isinstance(value, str) else value
        words = f"{column} {asked}" if value is None else f"{column} {asked} {text}"
        scan = table.scan(row_filter=words)
        return len(list(scan.plan_files())), len(scan.to_arrow())
    field, of_time = pc.field(column), pa.timestamp("us", "UTC")
    value = pa.scalar(value).cast(of_time) if column == "timestamp" and value else value
    filters: dict[str, Callable[[], Any]] = {
        "is null": field.is_null,
        "is not null": field.is_valid,
        ">=": lambda: field >= value,
        "<": lambda: field < value,
        "=": lambda: field == value,
    }
    found, rows = table.to_pyarrow_dataset(), filters[asked]()
    return len(list(found.get_fragments(rows))), len(found.to_table(filter=rows))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_repaired", [False, True])
def test_files_outside_of_a_range_of_offsets_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_repaired: bool
) -> None:
    """Three files, of which a repair writes the middle one anew, and another library does that."""
    source, lake = tmp_path / "logs", Lake(tmp_path, kind)
    old = [batch(*range(at, at + 10), timestamp=at * DAY, leader_epoch=0) for at in (0, 10, 20)]
    partition(source, b"".join(old[:2] if is_repaired else old), "a-0")
    exported(monkeypatch, source, lake.target)
    if is_repaired:
        new = batch(*range(15, 20), timestamp=10 * DAY, leader_epoch=1)
        last = batch(*range(20, 30), timestamp=20 * DAY, leader_epoch=1)
        kept = batch(*range(10, 15), timestamp=10 * DAY, leader_epoch=0)
        partition(source, old[0] + kept + new + last, "a-0")
        exported(monkeypatch, source, lake.target, repair=True)
    assert files_and_rows(lake, kind, "offset", ">=", 20) == (1, 10)
    assert files_and_rows(lake, kind, "offset", "<", 10) == (1, 10)
    assert files_and_rows(lake, kind, "offset", "=", 12) == (1, 1)
    assert files_and_rows(lake, kind, "offset", "=", 17) == (1, 1)
    assert files_and_rows(lake, kind, "offset", ">=", 30) == (0, 0)
    assert files_and_rows(lake, kind, "timestamp", ">=", "1970-01-21T00:00:00+00:00") == (1, 10)
    assert files_and_rows(lake, kind, "timestamp", ">=", "1970-01-21T00:00:01+00:00") == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("times", "nulls", "before"),
    [
        ([None, DAY], 0, 2),
        ([NO_TIME, NO_TIME], 2, 0),
        ([NO_TIME, None], 1, 1),
        ([NO_TIME, FAR, -FAR], 1, 1),
        ([FAR, DAY], 0, 1),
    ],
)
def test_every_record_is_found_whatever_its_timestamp(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    times: list[int | None],
    nulls: int,
    before: int,
) -> None:
    """None: a message of v0, which has none. `nulls`: how many are null. `before`: how many are
    before the middle."""
    source, lake = tmp_path / "logs", Lake(tmp_path, kind)
    batches = (
        batch(offset, magic=0) if time is None else batch(offset, timestamp=time)
        for offset, time in enumerate(times)
    )
    partition(source, b"".join(batches), "a-7")
    exported(monkeypatch, source, lake.target)

    def rows(column: str, asked: str, value: Any = None) -> int:
        return files_and_rows(lake, kind, column, asked, value)[1]

    count = len(times)
    assert rows("timestamp", "is null") == nulls
    assert rows("timestamp", "is not null") == count - nulls
    assert rows("timestamp", "<", MIDDLE) == before
    assert rows("timestamp", ">=", MIDDLE) == count - nulls - before
    assert rows("partition", "=", 7) == count
    assert rows("partition", "<", 7) == 0
    assert rows("offset", "=", count - 1) == 1
    assert rows("timestampType", "<", 0) == times.count(None)
    assert rows("key", "is null") == rows("value", "is not null") == count


def test_records_with_years_after_9999_are_replaced_in_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = tmp_path / "logs", Lake(tmp_path, "iceberg")
    first = batch(*range(10), timestamp=FAR, leader_epoch=0)
    old = batch(*range(10, 20), timestamp=FAR, leader_epoch=0)
    partition(source, first + old, "a-0")
    exported(monkeypatch, source, lake.target)
    kept = batch(*range(10, 15), timestamp=FAR, leader_epoch=0)
    new = batch(*range(15, 20), timestamp=10 * DAY, leader_epoch=1)
    partition(source, first + kept + new, "a-0")
    exported(monkeypatch, source, lake.target, repair=True)
    assert files_and_rows(lake, "iceberg", "offset", ">=", 0)[1] == 20
    assert files_and_rows(lake, "iceberg", "timestamp", "<", MIDDLE)[1] == 5
    assert BOUNDS not in lake.table().properties
