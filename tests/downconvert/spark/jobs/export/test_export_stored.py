"""An export to a store: its files count once a note names them, and those of killed runs go."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from downconvert.spark.jobs.export import export_noted, export_stored_notes
from downconvert.spark.jobs.export.export_manifest import FOLDER, Exported
from downconvert.spark.jobs.export.export_noted import add
from downconvert.spark.jobs.export.export_plan import Settings
from downconvert.spark.jobs.export.export_stored import place, write_records
from downconvert.spark.jobs.export.export_stored_notes import BEGUN, StoredNotes
from downconvert.spark.jobs.jobs import JobError, chosen
from downconvert.spark.jobs.progress import no_step
from downconvert.spark.stores import stores
from downconvert.storage import TopicPartition
from tests.downconvert.spark.in_process import SESSION, without_spark
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

DAY = 86_400_000
A, B = TopicPartition("a", 0), TopicPartition("ab", 3)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    partition(tmp_path, batch(0, 1, timestamp=DAY) + batch(2, timestamp=2 * DAY), "a-0")
    partition(tmp_path, batch(0, 1, 2, timestamp=DAY, leader_epoch=4), "ab-3")
    return tmp_path


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    yield f"memory://{tmp_path.name}/lake"
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def exported(patch: pytest.MonkeyPatch, source: Path, target: str, **settings: Any) -> Exported:
    with patch.context() as patched:
        without_spark(patched)
        notes, given = StoredNotes(target), Settings(**settings)
        logs = chosen([str(source)], ())
        return add(SESSION, logs, notes, settings=given, step=no_step)[0]


def names(target: str) -> list[str]:
    files = fsspec.filesystem("memory")
    path = target.removeprefix("memory:/")
    return sorted(name.removeprefix(f"{path}/") for name in files.find(path))


def content(target: str) -> list[tuple[str, int]]:
    files, found = fsspec.filesystem("memory"), []
    for name in names(target):
        if name.startswith("topic="):
            with files.open(f"{target.removeprefix('memory:/')}/{name}") as file:
                table = pq.ParquetFile(pa.BufferReader(file.read())).read(["offset"])
            topic = name.split("/")[0].removeprefix("topic=")
            found += [(topic, offset) for offset in table.column(0).to_pylist()]
    return sorted(found)


WHOLE = [(topic, offset) for topic in ("a", "ab") for offset in range(3)]


def put(target: str, name: str, data: bytes = b"") -> None:
    files = fsspec.filesystem("memory")
    files.pipe(f"{target.removeprefix('memory:/')}/{name}", data)


def test_a_run_leaves_its_files_and_one_note(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = exported(monkeypatch, source, target)
    assert content(target) == WHOLE
    assert there.ranges == {A: [(0, 3)], B: [(0, 3)]}
    others = [name for name in names(target) if not name.startswith("topic=")]
    assert len(others) == 1
    assert others[0].startswith(f"{FOLDER}/")
    assert not others[0].endswith(BEGUN)
    assert there.files == {name for name in names(target) if name.startswith("topic=")}
    before = names(target)
    assert exported(monkeypatch, source, target) == there
    assert names(target) == before
    partition(source, batch(3, timestamp=DAY), "a-0", 3)
    exported(monkeypatch, source, target)
    assert content(target) == [*WHOLE[:3], ("a", 3), *WHOLE[3:]]
    assert len([name for name in names(target) if name.startswith(FOLDER)]) == 1


@pytest.mark.parametrize("is_late", [False, True])
def test_files_of_a_killed_run_are_removed_and_those_of_others_stay(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    exported(monkeypatch, source, target)
    first = set(names(target))
    partition(source, batch(3, timestamp=DAY), "a-0", 3)

    def die(*given: object, **options: object) -> object:
        if is_late:
            write_records(*given, **options)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(export_noted, "write_records", die)
        with pytest.raises(KeyboardInterrupt):
            exported(monkeypatch, source, target)
    left = set(names(target)) - first
    assert [name for name in left if name.endswith(BEGUN)]
    assert any(name.startswith("topic=") for name in left) == is_late
    other = f"topic=a/date=1970-01-02/part-{'0' * 32}-000000.parquet"
    out = pa.BufferOutputStream()
    columns = {"partition": pa.array([7], pa.int32()), "offset": pa.array([5], pa.int64())}
    pq.write_table(pa.table(columns), out)
    put(target, other, bytes(out.getvalue()))
    exported(monkeypatch, source, target)
    now = set(names(target))
    assert not now & left
    assert other in now
    assert {name for name in first if name.startswith("topic=")} <= now
    assert content(target) == sorted([*WHOLE, ("a", 3), ("a", 5)])


def test_records_that_a_later_leader_truncated_are_replaced_in_their_topic_only(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(source, batch(0, 1, 2, timestamp=DAY, leader_epoch=1), "a-0")
    exported(monkeypatch, source, target)
    partition(source, batch(0, timestamp=DAY, leader_epoch=1) + batch(1, leader_epoch=2), "a-0")
    with pytest.raises(JobError, match="offsets 1 up to 3 of a-0 as they were in leader epoch 1"):
        exported(monkeypatch, source, target)
    there = exported(monkeypatch, source, target, repair=True)
    assert content(target) == [("a", 0), ("a", 1), *WHOLE[3:]]
    assert there.ranges == {A: [(0, 2)], B: [(0, 3)]}


def test_a_note_of_the_other_isolation_stays(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(monkeypatch, source, target, committed=True)
    partition(source, batch(3, timestamp=DAY), "a-0", 3)
    exported(monkeypatch, source, target)
    assert content(target) == [*WHOLE[:3], ("a", 3), *WHOLE[3:]]
    assert len([name for name in names(target) if name.startswith(FOLDER)]) == 2


def test_the_former_note_counts_until_a_new_one_is_written(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = exported(monkeypatch, source, target)
    notes = [name for name in names(target) if name.endswith(".json")]
    assert len(notes) == 1
    partition(source, batch(3, timestamp=DAY), "a-0", 3)

    def full(uri: str, data: bytes | Path) -> None:
        if uri.endswith(".json"):
            assert notes == [name for name in names(target) if name.endswith(".json")]
            raise OSError("the quota is used up")
        stores.write(uri, data)

    with monkeypatch.context() as patched:
        patched.setattr(export_stored_notes, "write", full)
        with pytest.raises(OSError, match="quota"):
            exported(monkeypatch, source, target)
    assert notes == [name for name in names(target) if name.endswith(".json")]
    assert StoredNotes(target).read("read_uncommitted").ranges == there.ranges
    exported(monkeypatch, source, target)
    assert content(target) == sorted([*WHOLE, ("a", 3)])


def test_a_file_that_a_killed_task_has_left_unfinished_in_hdfs_does_not_end_the_next_run(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "has_rename", lambda _: True)
    memory = type(fsspec.filesystem("memory"))
    move = memory.mv

    def die(self: Any, source: str, *given: Any, **options: Any) -> object:
        if ".parquet" in source:
            raise KeyboardInterrupt
        return move(self, source, *given, **options)

    with monkeypatch.context() as dying:
        dying.setattr(memory, "mv", die)
        with pytest.raises(KeyboardInterrupt):
            exported(monkeypatch, source, target)
    left = [name for name in names(target) if name.endswith(".part")]
    assert len(left) == 1
    assert left[0].rpartition("/")[2].startswith(".")  # readers skip it
    exported(monkeypatch, source, target)
    assert content(target) == WHOLE
    assert not set(left) & set(names(target))


def test_a_file_that_a_killed_repair_has_not_renamed_in_hdfs_is_renamed_by_the_next_run(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename does not replace a file there. So the old one is removed before."""
    monkeypatch.setattr(stores, "has_rename", lambda _: True)
    exported(monkeypatch, source, target)
    memory = type(fsspec.filesystem("memory"))

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(memory, "mv", die)
        with pytest.raises(KeyboardInterrupt):
            StoredNotes(target).remove(A, 1, 2)
    assert content(target) != WHOLE
    StoredNotes(target).remove_lost()
    assert content(target) == [one for one in WHOLE if one != ("a", 1)]
    assert not [name for name in names(target) if name.endswith(".part")]


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task may run on another machine than the one that writes the note."""
    made, target = tmp_path / "made", tmp_path / "topic=a" / "part.parquet"
    made.write_bytes(b"records")
    synced: list[tuple[int, int, bool]] = []

    def sync(file: int) -> None:
        status = os.fstat(file)
        synced.append((status.st_ino, status.st_size, target.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    place(target, made)
    assert synced == [(target.stat().st_ino, 7, False)]
    assert list(target.parent.iterdir()) == [target]
