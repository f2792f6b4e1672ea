"""Files that no note names: their offsets are not added again, and nothing removes them. The same
holds for a directory and for a store."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from downconvert.spark.jobs.export.export_manifest import FOLDER, Exported
from downconvert.spark.jobs.export.export_unnoted import (
    Unnoted,
    without_held,
    without_offsets,
)
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage.names import Kind, TopicPartition, file_name
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

DAY = 86_400_000
A = TopicPartition("a", 0)
WHOLE = [("a", 0, offset) for offset in (0, 1, 2, 3)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    days = batch(0, timestamp=DAY) + batch(1, timestamp=2 * DAY) + batch(2, 3, timestamp=DAY)
    return partition(tmp_path / "logs", days, "a-0").parent


def offsets(lake: Path) -> list[tuple[str, int, int]]:
    return [row[:3] for row in archived(lake)]


def lose_notes(lake: Path) -> None:
    for note in (lake / FOLDER).iterdir():
        note.unlink()


def test_without_notes_nothing_is_added_again_and_a_new_note_names_the_files(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    exported(monkeypatch, source, lake)
    names = sorted(lake.rglob("*.parquet"))
    lose_notes(lake)
    there = exported(monkeypatch, source, lake)
    assert offsets(lake) == WHOLE
    assert sorted(lake.rglob("*.parquet")) == names
    assert there.files == {str(name.relative_to(lake)) for name in names}
    assert there.ranges == {A: [(0, 4)]}


def test_a_file_that_is_lost_is_written_again_beside_the_others(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    exported(monkeypatch, source, lake)
    lose_notes(lake)
    next(lake.glob("topic=a/date=1970-01-02/*.parquet")).unlink()
    exported(monkeypatch, source, lake)
    assert offsets(lake) == WHOLE


def test_exported_records_that_retention_deleted_stay(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    exported(monkeypatch, source, lake)
    lose_notes(lake)
    (source / "a-0" / file_name(0, Kind.LOG)).unlink()
    (source / "a-0" / file_name(3, Kind.LOG)).write_bytes(batch(3, 4, timestamp=DAY))
    there = exported(monkeypatch, source, lake)
    assert offsets(lake) == [*WHOLE, ("a", 0, 4)]
    assert there.ranges == {A: [(3, 5)]}
    assert len(there.files) < len(list(lake.rglob("*.parquet")))  # the note vouches for its own


@pytest.mark.parametrize("data", [b"", b"no parquet", b"PAR1" * 9])
def test_a_file_of_another_program_ends_the_run(data: bytes) -> None:
    with pytest.raises(JobError, match=r"topic=a/x\.parquet is not a file of an export"):
        Unnoted(["topic=a/x.parquet"], lambda _: data)


def test_a_table_of_other_columns_ends_the_run() -> None:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"partition": ["x"], "offset": ["y"]}), out)
    with pytest.raises(JobError, match="is not a file of an export"):
        Unnoted(["topic=a/x.parquet"], lambda _: bytes(out.getvalue()))


def written(*pairs: tuple[int, int]) -> Callable[[str], bytes]:
    out = pa.BufferOutputStream()
    columns = {"partition": [one[0] for one in pairs], "offset": [one[1] for one in pairs]}
    pq.write_table(pa.table(columns), out)
    return lambda _: bytes(out.getvalue())


def test_offsets_are_joined_to_runs() -> None:
    pairs = [(0, 5), (0, 1), (0, 2), (0, 9), (1, 7), (0, 3), (0, 2)]
    found = Unnoted(["topic=a/x", "topic=b/y"], written(*pairs))
    runs = {str(name): one.tolist() for name, one in found.held().items()}
    zero, one = [[1, 4], [5, 6], [9, 10]], [[7, 8]]
    assert runs == {"a-0": zero, "a-1": one, "b-0": zero, "b-1": one}
    exported = Exported("read_uncommitted", ranges={A: [(0, 10)]})
    assert found.within(exported) == set()
    exported.ranges[TopicPartition("a", 1)] = [(7, 8)]
    assert found.within(exported) == {"topic=a/x"}
    exported.ranges[A] = [(0, 5), (6, 10)]
    assert found.within(exported) == set()


def test_held_offsets_are_left_out() -> None:
    table = pa.record_batch({"offset": pa.array(range(12), pa.int64())})
    held = np.array([[1, 4], [5, 6], [9, 10]])
    left = without_held(table, held).column("offset").to_pylist()
    assert left == [0, 4, 6, 7, 8, 10, 11]
    assert without_held(table, None) is table


def test_files_that_a_killed_run_has_not_moved_are_removed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(tmp_path / "lake" / "_run-dead", b"half", "topic=a")
    exported(monkeypatch, source, tmp_path / "lake")
    assert sorted(one.name for one in (tmp_path / "lake").iterdir()) == [FOLDER, "topic=a"]


def test_records_are_removed_of_one_partition_between_two_offsets() -> None:
    pairs = [(0, offset) for offset in range(6)] + [(1, offset) for offset in range(6)]
    data = written(*pairs)("")
    left = without_offsets(data, 1, 2, 4)
    assert left is not None
    table = pq.ParquetFile(pa.BufferReader(left)).read()
    kept = list(zip(*table.to_pydict().values(), strict=True))
    assert kept == [one for one in pairs if one not in ((1, 2), (1, 3))]
    assert without_offsets(data, 1, 6, 9) is None
    assert without_offsets(data, 2, 0, 9) is None


def test_runs_of_several_files_may_lie_within_each_other() -> None:
    files = {
        "topic=a/x": [(0, at) for at in range(9)],
        "topic=a/y": [(0, 2), (0, 3)],
        "topic=a/z": [(0, 9), (0, 12)],
    }
    found = Unnoted(files, lambda name: written(*files[name])(name))
    assert {str(name): one.tolist() for name, one in found.held().items()} == {
        "a-0": [[0, 10], [12, 13]]
    }
