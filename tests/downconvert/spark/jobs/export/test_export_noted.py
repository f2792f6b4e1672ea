"""A run of an export: what it writes, counts and notes, for all of its logs."""

from datetime import date, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from downconvert.spark.jobs.export import export_stored
from downconvert.spark.jobs.export.export_directory import DirectoryNotes
from downconvert.spark.jobs.export.export_manifest import FOLDER, parse
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage import TopicPartition
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark import exporting
from tests.downconvert.spark.exporting import added, archived, exported
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch, segment

DAY = 86_400_000
NAMES = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three logs; of each, the records of two days."""
    for number, name in enumerate(NAMES):
        data = [
            batch(at, at + 1, timestamp=DAY * (1 + at // 4), leader_epoch=number)
            for at in range(0, 8 + 2 * number, 2)
        ]
        partition(tmp_path / "logs", b"".join(data), str(name))
        text = f"0\n1\n{number} 0\n"
        (tmp_path / "logs" / str(name) / "leader-epoch-checkpoint").write_text(text)
    return tmp_path / "logs"


def offsets(lake: Path) -> list[tuple[str, int, int]]:
    return [row[:3] for row in archived(lake)]


def expected(*counts: int) -> list[tuple[str, int, int]]:
    return [(*name, at) for name, count in zip(NAMES, counts, strict=True) for at in range(count)]


def test_all_logs_are_one_run_and_one_note(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    there, files = added(monkeypatch, source, lake)
    assert offsets(lake) == expected(8, 10, 12)
    assert there.ranges == {name: [(0, end)] for name, end in zip(NAMES, (8, 10, 12), strict=True)}
    assert there.epochs == {
        name: {end: epoch} for epoch, (name, end) in enumerate(zip(NAMES, (8, 10, 12), strict=True))
    }
    assert there.files == {one.file for one in files}
    assert sum(one.records for one in files) == 30
    assert len(list((lake / FOLDER).iterdir())) == 1
    assert added(monkeypatch, source, lake) == (there, [])
    with (source / "a-1" / file_name(0, Kind.LOG)).open("ab") as log:
        log.write(batch(10, timestamp=DAY, leader_epoch=1))
    again, files = added(monkeypatch, source, lake)
    assert offsets(lake) == expected(8, 11, 12)
    assert [one.records for one in files] == [1]
    assert again.ranges[NAMES[1]] == [(0, 11)]
    assert again.files == there.files | {one.file for one in files}


@pytest.mark.parametrize("held", [1, 10**9])
def test_a_file_says_what_it_has_however_often_memory_was_full(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    segment(source / "a-0", 8, batch(8, timestamp=DAY), batch(9, timestamp=2 * DAY))
    monkeypatch.setattr(export_stored, "HELD_MAX", held)
    lake = tmp_path / "lake"
    _, files = added(monkeypatch, source / "a-0", lake)
    found = [(one.records, one.columns["offset"], one.columns["timestamp"]) for one in files]
    times = [(1000 * day * DAY, 1000 * day * DAY, 0) for day in (1, 2)]
    assert found == [(5, (0, 8, 0), times[0]), (5, (4, 9, 0), times[1])]
    assert [one.size for one in files] == [(lake / one.file).stat().st_size for one in files]
    assert [str(one.day) for one in files] == ["1970-01-02", "1970-01-03"]


def test_memory_is_filled_again_after_it_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task reads six segments. The records of three of them fill the memory."""
    for offset in range(6):
        partition(tmp_path / "logs", batch(offset, timestamp=DAY, size=1000), "a-0", offset)
    monkeypatch.setattr(export_stored, "HELD_MAX", 2500)
    _, (file,) = added(monkeypatch, tmp_path / "logs", tmp_path / "lake")
    assert pq.read_metadata(tmp_path / "lake" / file.file).num_row_groups == 2


def test_a_log_with_an_unreadable_range_is_noted_of_no_other(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = source / "a-1" / file_name(0, Kind.LOG)
    good = path.read_bytes()
    size = len(good) // 5
    path.write_bytes(good[: 2 * size - 1] + b"?" + good[2 * size :])
    lake = tmp_path / "lake"
    there = exported(monkeypatch, source, lake, skip_damaged=True)
    assert there.ranges[NAMES[1]] == [(0, 2), (4, 10)]
    assert there.ranges[NAMES[2]] == [(0, 12)]
    assert [row for row in expected(8, 10, 12) if row not in offsets(lake)] == [
        ("a", 1, 2),
        ("a", 1, 3),
    ]
    assert there.epochs[NAMES[1]] == {2: 1, 10: 1}
    path.write_bytes(good)
    assert exported(monkeypatch, source, lake).ranges[NAMES[1]] == [(0, 10)]
    assert offsets(lake) == expected(8, 10, 12)


@pytest.mark.parametrize("at", [0, 6])
def test_a_damaged_header_loses_what_follows_of_its_log_only(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Where no index leads behind it, the lost offsets go up to the next segment."""
    segment(source / "a-0", 8, batch(8, 9, timestamp=DAY))
    path = source / "a-0" / file_name(0, Kind.LOG)
    data = path.read_bytes()
    start = len(data) // 4 * at // 2
    path.write_bytes(data[:start] + bytes(len(data) - start))
    there = exported(monkeypatch, source, tmp_path / "lake", skip_damaged=True)
    assert there.ranges[NAMES[0]] == ([(0, at)] if at else []) + [(8, 10)]
    assert offsets(tmp_path / "lake")[: at + 2] == [("a", 0, n) for n in (*range(at), 8, 9)]
    assert offsets(tmp_path / "lake")[at + 2 :] == expected(0, 10, 12)


def test_files_without_a_note_count_for_each_of_the_logs(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    exported(monkeypatch, source, lake)
    for note in (lake / FOLDER).iterdir():
        note.unlink()
    assert added(monkeypatch, source, lake)[1] == []
    assert offsets(lake) == expected(8, 10, 12)


def test_a_note_names_its_cluster_and_topics(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = source / "meta.properties"
    meta.write_text("version=1\ncluster.id=first\nnode.id=3\n")
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    (source / "b-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    there = exported(monkeypatch, source, tmp_path / "lake")
    assert (there.cluster_id, there.topic_ids) == ("first", {"b": topic_id})
    meta.write_text("version=1\ncluster.id=second\nnode.id=3\n")
    with pytest.raises(JobError, match="records of the cluster first, and these logs are of secon"):
        exported(monkeypatch, source, tmp_path / "lake")


def test_a_run_is_announced_under_the_id_in_the_names_of_its_files(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store's next run finds by it what is left of one that died."""
    begun: list[str] = []

    class Announced(DirectoryNotes):
        def begin(self, run_id: str) -> None:
            assert not list(self.directory.rglob("*.parquet"))
            begun.append(run_id)

    monkeypatch.setattr(exporting, "DirectoryNotes", Announced)
    _, files = added(monkeypatch, source, tmp_path / "lake")
    assert len(begun) == 1
    assert all(f"/part-{begun[0]}-" in one.file for one in files)


def test_a_note_of_the_other_isolation_stays(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    exported(monkeypatch, source, lake, committed=True)
    partition(source, batch(0, timestamp=DAY), "d-4")
    exported(monkeypatch, source, lake)
    notes = [parse(note.read_bytes()) for note in (lake / FOLDER).iterdir()]
    assert sorted(note.isolation for note in notes) == ["read_committed", "read_uncommitted"]
    assert len(exported(monkeypatch, source, lake, committed=True).ranges) == 4


@pytest.mark.parametrize("day", [date.min, date(1969, 12, 31), date.max])
def test_a_date_in_range_is_a_folder_and_the_next_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, day: date
) -> None:
    since = (day - date(1970, 1, 1)).days
    beyond = since + (1 if day == date.max else -1)
    data = batch(0, timestamp=since * DAY) + batch(1, timestamp=beyond * DAY)
    _, files = added(
        monkeypatch, partition(tmp_path / "logs", data, "a-0").parent, tmp_path / "lake"
    )
    left = None if day in (date.min, date.max) else day - timedelta(days=1)
    assert {one.day for one in files} == {day, left}


def test_epochs_of_records_that_retention_has_deleted_stay_noted(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = source / "a-1" / file_name(0, Kind.LOG)
    data = bytearray(path.read_bytes())
    data[2 * len(data) // 5 - 1] ^= 1
    path.write_bytes(data)
    lake = tmp_path / "lake"
    assert exported(monkeypatch, source, lake, skip_damaged=True).epochs[NAMES[1]] == {2: 1, 10: 1}
    path.unlink()
    (source / "a-1" / "leader-epoch-checkpoint").unlink()
    segment(source / "a-1", 10, batch(10, timestamp=DAY, leader_epoch=4))
    there = exported(monkeypatch, source, lake)
    assert there.ranges[NAMES[1]] == [(0, 2), (4, 11)]
    assert there.epochs[NAMES[1]] == {2: 1, 11: 4}
