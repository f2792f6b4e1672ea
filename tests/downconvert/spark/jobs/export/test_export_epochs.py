"""An export holds what the logs have, also after a later leader has truncated them."""

from pathlib import Path

import pytest

from downconvert.spark.errors import CorruptSegmentError
from downconvert.spark.jobs.export.export_epochs import facts_of, truncated
from downconvert.spark.jobs.export.export_manifest import Exported, parse
from downconvert.spark.jobs.export.export_plan import Settings
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.logs.trees import find_partitions
from downconvert.storage import TopicPartition
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.lakes import Lake
from tests.downconvert.spark.reading import rows
from tests.downconvert.spark.stream.test_follow import stream
from tests.downconvert.storage.logs import batch, segment

DAY = 86_400_000
A = TopicPartition("a", 0)


def log(path: Path, *epochs: tuple[int, int, int], checkpoint: bool = True) -> Path:
    """A log of epochs: the epoch, and its offsets from one up to another."""
    path.mkdir(exist_ok=True)
    segment(
        path / "a-0",
        0,
        *(
            batch(offset, timestamp=DAY, size=10 + epoch, leader_epoch=epoch)
            for epoch, start, end in epochs
            for offset in range(start, end)
        ),
    )
    if checkpoint:
        lines = "".join(f"{epoch} {start}\n" for epoch, start, _ in epochs)
        text = f"0\n{len(epochs)}\n{lines}"
        (path / "a-0" / "leader-epoch-checkpoint").write_text(text)
    return path


def values(*epochs: tuple[int, int, int]) -> list[tuple[int, int]]:
    """Offsets, and how long their values are."""
    return [(n, 10 + epoch) for epoch, start, end in epochs for n in range(start, end)]


def sizes(lake: Lake) -> list[tuple[int, int]]:
    return [(offset, len(value)) for offset, value in lake.records()]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_records_that_a_later_leader_truncated_end_the_run_or_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    lake = Lake(tmp_path, kind)
    source = log(tmp_path / "logs", (0, 0, 10))
    exported(monkeypatch, source, lake.target)
    assert sizes(lake) == values((0, 0, 10))
    log(source, (0, 0, 7), (1, 7, 12))
    with pytest.raises(JobError, match="offsets 7 up to 10 of a-0 as they were in leader epoch 0"):
        exported(monkeypatch, source, lake.target)
    assert sizes(lake) == values((0, 0, 10))
    there = exported(monkeypatch, source, lake.target, repair=True)
    assert sizes(lake) == values((0, 0, 7), (1, 7, 12))
    assert there.ranges == {A: [(0, 12)]}
    assert there.epochs == {A: {12: 1}}
    exported(monkeypatch, source, lake.target)
    assert sizes(lake) == values((0, 0, 7), (1, 7, 12))


@pytest.mark.parametrize("end", [7, 8, 10, 12])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_truncation_is_seen_however_long_the_log_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int, checkpoint: bool
) -> None:
    source, lake = log(tmp_path / "logs", (0, 0, 10), checkpoint=checkpoint), tmp_path / "lake"
    exported(monkeypatch, source, lake)
    log(source, (0, 0, 7), (1, 7, end), checkpoint=checkpoint)
    if not checkpoint and end == 7:  # nothing of the new leader is there
        with pytest.warns(RuntimeWarning, match="was truncated since"):
            exported(monkeypatch, source, lake)
        return
    with pytest.raises(JobError, match="--repair"):
        exported(monkeypatch, source, lake)
    exported(monkeypatch, source, lake, repair=True)
    assert [row[2] for row in archived(lake)] == list(range(end))


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("start", [0, 7])
def test_a_repair_is_noted_although_the_new_leader_has_written_nothing_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, start: int
) -> None:
    source, lake = log(tmp_path / "logs", (0, 0, 10)), Lake(tmp_path, kind)
    exported(monkeypatch, source, lake.target)
    log(source, (0, 0, start), (1, start, start))
    there = exported(monkeypatch, source, lake.target, repair=True)
    assert there.end_of(A) == (start or None)
    assert sizes(lake) == values((0, 0, start))
    exported(monkeypatch, source, lake.target)
    log(source, (0, 0, start), (1, start, 12))
    assert exported(monkeypatch, source, lake.target).ranges == {A: [(0, 12)]}
    assert sizes(lake) == values((0, 0, start), (1, start, 12))


def test_a_run_that_dies_amid_a_repair_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = log(tmp_path / "logs", (0, 0, 10)), tmp_path / "lake"
    exported(monkeypatch, source, lake)
    log(source, (0, 0, 7), (1, 7, 12))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("downconvert.spark.jobs.export.export_noted.write_records", die)
        with pytest.raises(KeyboardInterrupt):
            exported(monkeypatch, source, lake, repair=True)
    assert [(row[2], len(row[3])) for row in archived(lake)] == values((0, 0, 7))
    exported(monkeypatch, source, lake)
    assert [(row[2], len(row[3])) for row in archived(lake)] == values((0, 0, 7), (1, 7, 12))


def test_a_file_that_a_killed_repair_has_left_unfinished_is_not_among_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = log(tmp_path / "logs", (0, 0, 10)), tmp_path / "lake"
    exported(monkeypatch, source, lake)
    log(source, (0, 0, 7), (1, 7, 12))

    def cut_off(_: object, path: Path, data: bytes) -> None:
        path.with_name(f"{path.name}.tmp").write_bytes(data[:10])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("downconvert.spark.jobs.export.export_directory.replace_file", cut_off)
        with pytest.raises(KeyboardInterrupt):
            exported(monkeypatch, source, lake, repair=True)
    assert [path.suffix for path in lake.glob("topic=*/*/*")] == [".parquet"]
    exported(monkeypatch, source, lake, repair=True)
    assert [(row[2], len(row[3])) for row in archived(lake)] == values((0, 0, 7), (1, 7, 12))


def test_a_copy_of_an_earlier_epoch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    exported(monkeypatch, log(tmp_path / "new", (0, 0, 7), (1, 7, 10)), lake)
    with pytest.raises(JobError, match="is a copy that is not up to date"):
        exported(monkeypatch, log(tmp_path / "old", (0, 0, 12)), lake)


def test_an_export_ends_at_the_high_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = log(tmp_path / "logs", (0, 0, 10)), tmp_path / "lake"
    noted = source / "replication-offset-checkpoint"
    noted.write_text("0\n1\na 0 6\n")
    exported(monkeypatch, source, lake)
    assert [row[2] for row in archived(lake)] == list(range(6))
    log(source, (0, 0, 7), (1, 7, 12))
    noted.write_text("0\n1\na 0 9\n")
    exported(monkeypatch, source, lake)
    assert [row[2] for row in archived(lake)] == list(range(9))
    exported(monkeypatch, source, lake, past_high_watermark=True)
    assert [row[2] for row in archived(lake)] == list(range(12))


def test_without_a_high_watermark_an_export_warns_and_reads_the_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = log(tmp_path / "logs", (0, 0, 10)), tmp_path / "lake"
    with pytest.warns(RuntimeWarning, match="no checkpoint has a high watermark of a-0"):
        exported(monkeypatch, source, lake)
    assert [row[2] for row in archived(lake)] == list(range(10))


def test_an_export_ends_at_the_highest_of_the_copies_high_watermarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, offset in (("b1", 4), ("b2", 8), ("b3", None)):
        broker = tmp_path / "logs" / name
        broker.parent.mkdir(exist_ok=True)
        log(broker, (0, 0, 10))
        if offset is not None:
            (broker / "replication-offset-checkpoint").write_text(f"0\n1\na 0 {offset}\n")
    exported(monkeypatch, tmp_path / "logs", tmp_path / "lake")
    assert [row[2] for row in archived(tmp_path / "lake")] == list(range(8))
    assert len(rows(tmp_path / "logs", stopAtHighWatermark=True)) == 8
    source = stream(tmp_path / "logs")
    assert source.latestOffset(source.initialOffset())["a"]["0"]["offset"] == 8


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ({"startingOffsets": '{"a":{"0":4}}'}, range(4, 10)),
        ({"endingOffsets": '{"a":{"0":4}}'}, range(4)),
        ({"startingTimestamp": "30", "endingTimestamp": "60"}, range(3, 6)),
    ],
)
def test_an_export_of_some_offsets_or_times_leaves_the_rest_to_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: dict[str, str], expected: range
) -> None:
    source, lake = tmp_path / "logs", tmp_path / "lake"
    source.mkdir()
    segment(source / "a-0", 0, *(batch(offset, leader_epoch=0) for offset in range(10)))
    given = tuple(between.items())
    there = exported(monkeypatch, source, lake, between=given)
    assert [row[2] for row in archived(lake)] == list(expected)
    assert there.ranges == {A: [(expected.start, expected.stop)]}
    for _ in range(2):
        there = exported(monkeypatch, source, lake)
        assert there.ranges == {A: [(0, 10)]}
        assert [row[2] for row in archived(lake)] == list(range(10))


def test_an_export_takes_only_options_that_select_offsets() -> None:
    with pytest.raises(ValueError, match=r"mode: an export takes startingOffsets"):
        Settings(between=(("mode", "PERMISSIVE"),))
    with pytest.raises(ValueError, match="startingOffsets must be 'earliest'"):
        Settings(between=(("startingOffsets", "first"),))


@pytest.mark.parametrize("torn", [0, 5])
def test_no_note_names_what_was_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: int
) -> None:
    source, lake = log(tmp_path / "logs", (0, 0, 10)), tmp_path / "lake"
    segment(source / "a-0", 10, *(batch(n, timestamp=DAY, leader_epoch=0) for n in (10, 11)))
    path = source / "a-0" / file_name(0, Kind.LOG)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 10 * 6 + torn])
    with pytest.raises(Exception, match=r"6 up to 10|past the end"):
        exported(monkeypatch, source, lake)
    assert archived(lake) == []
    for _ in range(2):
        there = exported(monkeypatch, source, lake, skip_damaged=True)
        assert there.ranges == {A: [(0, 6), (10, 12)]}
        assert [row[2] for row in archived(lake)] == [*range(6), 10, 11]
    path.write_bytes(whole)
    there = exported(monkeypatch, source, lake)
    assert there.ranges == {A: [(0, 12)]}
    assert [row[2] for row in archived(lake)] == list(range(12))


def test_zeros_over_a_batch_end_a_run_although_a_log_may_end_in_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = log(tmp_path / "logs", (0, 0, 4)), tmp_path / "lake"
    path = source / "a-0" / file_name(0, Kind.LOG)
    whole = path.read_bytes()
    size = len(whole) // 4
    path.write_bytes(whole[:size] + bytes(size) + whole[2 * size :])
    with pytest.raises(CorruptSegmentError):
        exported(monkeypatch, source, lake)
    assert archived(lake) == []
    path.write_bytes(whole[: 2 * size] + bytes(2 * size))
    exported(monkeypatch, source, lake)
    assert [row[2] for row in archived(lake)] == [0, 1]


@pytest.mark.parametrize("timestamp", [1_700_000_000_000_000, -(2**62), 2**63 - 1])
def test_a_timestamp_that_no_date_has_is_exported_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timestamp: int
) -> None:
    source, lake = tmp_path / "logs", tmp_path / "lake"
    source.mkdir()
    segment(source / "a-0", 0, batch(0, timestamp=timestamp), batch(1, timestamp=DAY))
    for skip_damaged in (False, True):
        exported(monkeypatch, source, lake, skip_damaged=skip_damaged)
        assert [row[2] for row in archived(lake)] == [0, 1]
    assert len(list(lake.glob("topic=a/date=__HIVE_DEFAULT_PARTITION__/*"))) == 1


def test_notes_of_earlier_versions_have_no_epochs() -> None:
    note = Exported("read_uncommitted", ranges={A: [(0, 5)]})
    assert '"epochs"' not in note.to_json()
    assert parse(note.to_json().encode()) == note
    note.epochs = {A: {5: 3}}
    assert parse(note.to_json().encode()) == note
    note.add(Exported("read_uncommitted", ranges={A: [(5, 9)]}))
    assert note.epochs == {A: {}}
    note.remove(A, 4)
    assert note.ranges == {A: [(0, 4)]}


def test_truncation_is_seen_though_only_another_copy_has_the_first_new_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy that has the beginning of the log lags behind it."""
    lake = Lake(tmp_path, "parquet")
    exported(monkeypatch, log(tmp_path / "b1", (0, 0, 9), checkpoint=False), lake.target)
    (tmp_path / "logs" / "b2").mkdir(parents=True)
    log(tmp_path / "logs" / "b2", (0, 0, 4), checkpoint=False)
    for name, first, end in (("b1", 11, 14), ("b3", 5, 11)):
        directory = tmp_path / "logs" / name / "a-0"
        directory.parent.mkdir()
        new = [batch(at, timestamp=DAY, size=12, leader_epoch=2) for at in range(first, end)]
        segment(directory, first, *new)
    with pytest.raises(JobError, match="offsets 5 up to 9 of a-0 as they were in leader epoch 0"):
        exported(monkeypatch, tmp_path / "logs", lake.target)


def test_a_repair_replaces_nothing_of_a_topic_whose_name_is_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path, "parquet")
    source = log(tmp_path / "logs", (0, 0, 6))
    (tmp_path / "other").mkdir()
    log(tmp_path / "other", (0, 0, 8))
    (tmp_path / "other" / "a-0").rename(source / "ab-0")
    exported(monkeypatch, source, lake.target)
    log(source, (0, 0, 4), (1, 4, 7))
    exported(monkeypatch, source, lake.target, repair=True)
    assert [row[:3] for row in archived(lake.target)] == [
        *(("a", 0, at) for at in range(7)),
        *(("ab", 0, at) for at in range(8)),
    ]


@pytest.mark.parametrize("ends", [{4: 0, 10: 1}, {10: 1, 4: 0}])
@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_first_changed_offset_of_two_ranges_counts(
    tmp_path: Path, ends: dict[int, int], checkpoint: bool
) -> None:
    path = log(tmp_path / "logs", (0, 0, 2), (1, 2, 6), (2, 6, 12), checkpoint=checkpoint)
    (found,) = find_partitions([str(path)])
    there = Exported("read_uncommitted", ranges={A: [(0, 4), (8, 10)]}, epochs={A: ends})
    lost = truncated(found, facts_of(found), there)
    assert lost is not None
    assert (lost.start, lost.end) == (2, 10)


@pytest.mark.parametrize("following", [[], [5], [5, 6], [6]])
def test_the_epoch_of_a_later_record_says_nothing_of_one_that_was_compacted(
    tmp_path: Path, following: list[int]
) -> None:
    """The last exported record was at offset 4. Where no record follows, the log ends before it."""
    batches = (batch(offset, leader_epoch=3) for offset in following)
    segment(tmp_path / "a-0", 0, batch(0, leader_epoch=0), *batches)
    (found,) = find_partitions([str(tmp_path)])
    there = Exported("read_uncommitted", ranges={A: [(0, 5)]}, epochs={A: {5: 0}})
    assert truncated(found, facts_of(found), there) is None
