"""Records become tables of Delta Lake and Iceberg; whenever a run dies, the next one goes on after
what was committed, with no record twice or missing. Tasks run in this process, without Spark."""

import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from struct import unpack
from typing import Any

import pyarrow as pa
import pytest

from downconvert.spark.jobs.export import export_delta
from downconvert.spark.jobs.export.export_table import PROPERTY
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage.names import Kind, file_name
from records import Codec, ControlRecordType, build_marker
from tests.downconvert.spark import table_job
from tests.downconvert.spark.table_job import KINDS, catalog_of, opened, run
from tests.downconvert.spark.table_job import Kind as TableKind
from tests.downconvert.storage.logs import batch, segment

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

DAY = 86_400_000  # milliseconds
WHOLE = ["007-0:0", "007-0:1", "007-0:2", "b-0:0", "b-0:1"]
every_kind = pytest.mark.parametrize("kind", KINDS)


class KilledError(BaseException):
    """In place of a kill: nothing may catch it."""


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    table_job.without_spark(monkeypatch.setattr)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    segment(path / "007-0", 0, batch(0, 1, timestamp=DAY), batch(2, timestamp=3 * DAY))
    segment(path / "b-0", 0, batch(0, magic=0), batch(1, codec=Codec.GZIP, timestamp=DAY))
    return path


def rows(kind: TableKind, home: Path) -> list[dict[str, Any]]:
    """The table's rows, by its own reader."""
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(str(home / "table")).to_pyarrow_dataset().to_table()
    else:
        found = catalog_of(home).load_table("lake.events").scan().to_arrow()
    return list(found.to_pylist())


def there(kind: TableKind, home: Path) -> list[str]:
    return sorted(f"{r['topic']}-{r['partition']}:{r['offset']}" for r in rows(kind, home))


@every_kind
def test_records_are_in_a_table_once(kind: TableKind, source: Path, tmp_path: Path) -> None:
    assert sum(one.records for one in run(kind, source, tmp_path)) == 5
    assert run(kind, source, tmp_path) == []
    found = {(row["topic"], row["offset"]): row for row in rows(kind, tmp_path)}
    assert sorted(f"{topic}-0:{offset}" for topic, offset in found) == WHOLE
    assert found["007", 2]["value"] == b"2 2 2 2 2 "
    assert found["007", 2]["date"] == date(1970, 1, 4)
    assert found["b", 0]["date"] is None
    segment(source / "007-0", 3, batch(3, 4, timestamp=DAY))
    (source / "007-0" / file_name(0, Kind.LOG)).unlink()  # by retention
    assert sum(one.records for one in run(kind, source, tmp_path)) == 2
    assert there(kind, tmp_path) == sorted([*WHOLE, "007-0:3", "007-0:4"])


@every_kind
def test_readers_can_skip_files_by_their_offsets_and_timestamps(
    kind: TableKind, source: Path, tmp_path: Path
) -> None:
    run(kind, source, tmp_path)
    found: set[tuple[int, int, int | None]] = set()
    if kind == "delta":
        from deltalake import DeltaTable

        actions = pa.table(DeltaTable(str(tmp_path / "table")).get_add_actions(flatten=True))
        for row in actions.to_pylist():
            time = row["min.timestamp"]
            assert time == row["max.timestamp"]
            seconds = None if row["partition.date"] is None else int(time.timestamp())
            found.add((row["min.offset"], row["max.offset"], seconds))
    else:
        table = catalog_of(tmp_path).load_table("lake.events")
        numbers = {field.name: field.field_id for field in table.schema().fields}
        for task in table.scan().plan_files():
            low, high = task.file.lower_bounds, task.file.upper_bounds
            offsets = [unpack("<q", bounds[numbers["offset"]])[0] for bounds in (low, high)]
            (time,) = unpack("<q", low[numbers["timestamp"]])
            found.add((*offsets, time // 1_000_000 if time >= 0 else None))
    assert found == {(0, 1, 86_400), (2, 2, 3 * 86_400), (0, 0, None), (1, 1, 86_400)}


def killed(
    kind: TableKind, source: Path, home: Path, step: int | str, patch: pytest.MonkeyPatch
) -> bool:
    """Whether a run took this step, in place of which it dies. The next one makes up for that."""
    home.mkdir()
    opened(kind, home)  # making a table is a commit of its own, of nothing
    with patch.context() as dying:
        table_job.count_steps(dying.setattr, step, KilledError)
        try:
            run(kind, source, home)
        except KilledError:
            died = True
        else:
            died = False
    run(kind, source, home)
    assert there(kind, home) == WHOLE, f"after a death at step {step}"
    return died


@every_kind
@pytest.mark.parametrize("step", [1, "commit", "committed"])
def test_a_run_that_dies_is_made_up_for(
    kind: TableKind, step: int | str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert killed(kind, source, tmp_path / "home", step, monkeypatch)


@pytest.mark.others
@every_kind
def test_a_run_that_dies_at_any_step_is_made_up_for(
    kind: TableKind, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 0
    while killed(kind, source, tmp_path / str(number), number, monkeypatch):
        number += 1
    assert number >= 5


@pytest.mark.others
@every_kind
def test_a_process_that_is_killed_is_made_up_for(
    kind: TableKind, source: Path, tmp_path: Path
) -> None:
    """At the first file, at the commit, and after it."""
    for number in (0, "commit", "committed"):
        home = tmp_path / str(number)
        home.mkdir()
        command = ("-m", "tests.downconvert.spark.table_job", kind, source, home, str(number))
        done = subprocess.run((sys.executable, *command), check=False, capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        run(kind, source, home)
        assert there(kind, home) == WHOLE


@every_kind
def test_one_of_two_exports_at_once_is_refused(
    kind: TableKind, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(kind, tmp_path)
    late = opened(kind, tmp_path)
    write = late.write

    def outrun(*given: Any) -> None:
        monkeypatch.setattr(late, "write", write)
        run(kind, source, tmp_path)
        write(*given)

    monkeypatch.setattr(late, "write", outrun)
    with pytest.raises(JobError, match="another export was committed meanwhile"):
        run(kind, source, tmp_path, table=late)
    assert there(kind, tmp_path) == WHOLE


@every_kind
def test_after_a_rollback_an_export_goes_on_where_that_version_ends(
    kind: TableKind, source: Path, tmp_path: Path
) -> None:
    run(kind, source, tmp_path)
    segment(source / "007-0", 3, batch(3, 4, timestamp=DAY))
    run(kind, source, tmp_path)
    if kind == "delta":
        from deltalake import DeltaTable

        DeltaTable(str(tmp_path / "table")).restore(1)
    else:
        table = catalog_of(tmp_path).load_table("lake.events")
        first = table.snapshots()[0].snapshot_id
        table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert there(kind, tmp_path) == WHOLE
    run(kind, source, tmp_path)
    assert there(kind, tmp_path) == sorted([*WHOLE, "007-0:3", "007-0:4"])


def test_a_delta_table_as_it_was_before_its_first_export_gets_everything_again(
    source: Path, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    run("delta", source, tmp_path)
    DeltaTable(str(tmp_path / "table")).restore(0)
    assert there("delta", tmp_path) == []
    run("delta", source, tmp_path)
    assert there("delta", tmp_path) == WHOLE


def test_a_restored_version_missing_from_deltas_log_is_refused(
    source: Path, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    run("delta", source, tmp_path)
    table = DeltaTable(str(tmp_path / "table"))
    table.create_checkpoint()
    table.delete("topic = 'b'")
    table.restore(1)
    for version in (0, 1):
        (tmp_path / "table" / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(JobError, match="was restored to version 1, and its log no longer says"):
        run("delta", source, tmp_path)


@every_kind
def test_an_older_copy_adds_what_is_not_there(
    kind: TableKind, source: Path, tmp_path: Path
) -> None:
    late = tmp_path / "late"
    late.mkdir()
    segment(late / "b-0", 1, batch(1, timestamp=DAY))
    run(kind, late, tmp_path)
    segment(source / "b-0", 2, batch(2, timestamp=DAY))
    run(kind, source, tmp_path)
    assert there(kind, tmp_path) == [*WHOLE, "b-0:2"]


@every_kind
def test_a_table_of_others_or_of_the_other_isolation_is_refused(
    kind: TableKind, source: Path, tmp_path: Path
) -> None:
    run(kind, source, tmp_path)
    with pytest.raises(JobError, match="with read_uncommitted, and this is read_committed"):
        run(kind, source, tmp_path, committed=True)


@every_kind
def test_offsets_without_records_are_noted(kind: TableKind, tmp_path: Path) -> None:
    """The last offset has no record, for example in a log that ends with a transaction's marker."""
    marker = build_marker(
        ControlRecordType.COMMIT, offset=0, timestamp=0, producer_id=7, producer_epoch=0
    )
    source = tmp_path / "logs"
    source.mkdir()
    segment(source / "b-0", 0, marker)
    for _ in range(2):
        assert run(kind, source, tmp_path) == []
    segment(source / "b-0", 1, batch(1))
    run(kind, source, tmp_path)
    assert there(kind, tmp_path) == ["b-0:1"]


def test_delta_keeps_the_ends_when_its_log_is_cleaned(source: Path, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    run("delta", source, tmp_path)
    table = DeltaTable(str(tmp_path / "table"))
    table.create_checkpoint()
    table.delete("topic = 'b'")
    table = DeltaTable(str(tmp_path / "table"))
    table.create_checkpoint()
    for version in (0, 1):
        (tmp_path / "table" / "_delta_log" / f"{version:020}.json").unlink()
    assert not any(PROPERTY in commit for commit in DeltaTable(str(tmp_path / "table")).history())
    with pytest.warns(RuntimeWarning, match="has 3 records, the last export left 5, and its log"):
        assert run("delta", source, tmp_path) == []


def test_a_rollback_to_a_snapshot_that_iceberg_lacks_is_refused(
    source: Path, tmp_path: Path
) -> None:
    run("iceberg", source, tmp_path)
    table = catalog_of(tmp_path).load_table("lake.events")
    first = table.current_snapshot().snapshot_id
    table.delete("topic = 'b'")
    second = table.current_snapshot().snapshot_id
    segment(source / "007-0", 3, batch(3, 4, timestamp=DAY))
    run("iceberg", source, tmp_path)
    table = catalog_of(tmp_path).load_table("lake.events")
    table.maintenance.expire_snapshots().by_id(first).commit()
    table.manage_snapshots().rollback_to_snapshot(second).commit()
    with pytest.raises(JobError, match="was rolled back to a snapshot"):
        run("iceberg", source, tmp_path)


def test_iceberg_keeps_the_offsets_when_its_snapshots_expire(source: Path, tmp_path: Path) -> None:
    run("iceberg", source, tmp_path)
    table = catalog_of(tmp_path).load_table("lake.events")
    first = table.current_snapshot().snapshot_id
    table.delete("topic = 'b'")
    table.maintenance.expire_snapshots().by_id(first).commit()
    assert run("iceberg", source, tmp_path) == []


@pytest.mark.parametrize("slashes", ["/", "///"])
def test_a_warehouse_of_this_machine_may_be_named_as_java_does(
    slashes: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"file:{slashes}{str(tmp_path / 'warehouse').lstrip('/')}"
    properties = table_job.properties_of(tmp_path) | {"warehouse": place}
    monkeypatch.setattr(table_job, "properties_of", lambda _: properties)
    for expected in (5, 0):
        assert sum(one.records for one in run("iceberg", source, tmp_path)) == expected
    assert there("iceberg", tmp_path) == WHOLE
    assert list((tmp_path / "warehouse").rglob("*.parquet"))
    assert not Path("file:").exists()


def test_delta_is_asked_for_no_more_of_its_log_than_is_wanted(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    run("delta", source, tmp_path)
    asked: list[int | None] = []
    whole = DeltaTable.history

    def history(table: DeltaTable, limit: int | None = None) -> list[dict[str, Any]]:
        asked.append(limit)
        return whole(table, limit)

    monkeypatch.setattr(DeltaTable, "history", history)
    assert run("delta", source, tmp_path) == []
    assert asked == [export_delta.HISTORY[0]]
    table = DeltaTable(str(tmp_path / "table"))
    for _ in range(3):
        table.delete("topic = 'none'")
        table.alter.set_table_properties({"delta.appendOnly": "false"})
    asked.clear()
    monkeypatch.setattr(export_delta, "HISTORY", (1, 2, None))
    assert run("delta", source, tmp_path) == []  # what is further back is found, too
    assert asked == [1, 2, None]


def test_a_delta_table_that_may_have_been_restored_is_warned_of(
    source: Path, tmp_path: Path
) -> None:
    """Its log is cleaned past that, and past all exports."""
    from deltalake import DeltaTable

    run("delta", source, tmp_path)
    segment(source / "b-0", 2, batch(2, timestamp=DAY))
    run("delta", source, tmp_path)
    table = DeltaTable(str(tmp_path / "table"))
    table.restore(1)
    table.alter.set_table_properties({"delta.appendOnly": "false"})
    table.create_checkpoint()
    for version in range(4):
        (tmp_path / "table" / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.warns(RuntimeWarning, match="has 5 records, the last export left 6, and its log"):
        assert run("delta", source, tmp_path) == []
