"""An export notes no leader epoch that a flipped bit has made wrong, or a repair corrects it."""

from pathlib import Path

import pytest

from downconvert.spark.jobs.jobs import JobError
from downconvert.storage.names import Kind, file_name
from tests.damage import damaged
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.lakes import Lake

from .test_export_epochs import A, log, sizes, values

WRONG = [0, 2, 7, 64]


def dated(path: Path, wrong: int, *, checkpoint: bool, count: int = 5) -> Path:
    """A log of epoch 3. Its last batch has a wrong epoch, which no checksum covers."""
    log(path, (3, 0, count), checkpoint=checkpoint)
    file = path / "a-0" / file_name(0, Kind.LOG)
    data = file.read_bytes()
    at = len(data) // count * (count - 1)
    last = damaged(data[at:], field="leader_epoch", to=wrong, crc="stale")
    file.write_bytes(data[:at] + last)
    return path


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("shown_by", ["checkpoint", "copy"])
def test_an_epoch_that_something_contradicts_is_not_noted_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int, shown_by: str
) -> None:
    lake, source, has_noted = tmp_path / "lake", tmp_path / "logs", shown_by == "checkpoint"
    source.mkdir()
    dated(source / "b1", wrong, checkpoint=has_noted)
    if not has_noted:
        log(source / "b2", (3, 0, 5), checkpoint=False)
    there = exported(monkeypatch, source, lake)
    assert (there.ranges, there.epochs) == ({A: [(0, 5)]}, {A: {5: 3}})
    assert exported(monkeypatch, source, lake) == there  # nothing was truncated
    log(source / "b1", (3, 0, 8))
    there = exported(monkeypatch, source, lake)
    assert (there.ranges, there.epochs) == ({A: [(0, 8)]}, {A: {8: 3}})
    assert [row[2] for row in archived(lake)] == list(range(8))


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_repair_corrects_a_wrong_epoch_in_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, wrong: int
) -> None:
    """Nothing contradicted it when it was noted. A repair also corrects an epoch that is too high,
    and keeps the records then."""
    lake, source = Lake(tmp_path, kind), tmp_path / "logs"
    exported(monkeypatch, dated(source, wrong, checkpoint=False), lake.target)
    log(source, (3, 0, 5))
    with pytest.raises(JobError, match="--repair"):
        exported(monkeypatch, source, lake.target)
    before = set(tmp_path.rglob("*.parquet"))
    if wrong > 3:
        with pytest.warns(RuntimeWarning, match=r"a-0 was exported up to 5 .* noted now"):
            exported(monkeypatch, source, lake.target, repair=True)
        assert set(tmp_path.rglob("*.parquet")) == before
    else:
        exported(monkeypatch, source, lake.target, repair=True)
    assert exported(monkeypatch, source, lake.target).epochs == {A: {5: 3}}
    log(source, (3, 0, 9))
    exported(monkeypatch, source, lake.target)
    assert sizes(lake) == values((3, 0, 9))


def test_a_repair_by_an_old_copy_loses_nothing_that_the_current_log_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path, "parquet")
    new = log(tmp_path / "new", (0, 0, 7), (1, 7, 10))
    exported(monkeypatch, new, lake.target)
    exported(monkeypatch, log(tmp_path / "old", (0, 0, 12)), lake.target, repair=True)
    with pytest.raises(JobError, match="offsets 7 up to 12 of a-0 as they were in leader epoch 0"):
        exported(monkeypatch, new, lake.target)
    exported(monkeypatch, new, lake.target, repair=True)
    assert sizes(lake) == values((0, 0, 7), (1, 7, 10))


@pytest.mark.parametrize("wrong", WRONG)
def test_truncation_is_seen_after_an_epoch_that_the_checkpoint_contradicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    source, lake = tmp_path / "logs", Lake(tmp_path, "parquet")
    exported(monkeypatch, dated(source, wrong, checkpoint=True), lake.target)
    log(source, (3, 0, 3), (4, 3, 7))
    with pytest.raises(JobError, match="offsets 3 up to 5 of a-0 as they were in leader epoch 3"):
        exported(monkeypatch, source, lake.target)
    exported(monkeypatch, source, lake.target, repair=True)
    assert sizes(lake) == values((3, 0, 3), (4, 3, 7))


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_repair_replaces_the_records_of_an_epoch_that_an_unclean_leader_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: bool
) -> None:
    """The log's record at the end of the export is of an earlier epoch, but the log is not old."""
    lake, source = Lake(tmp_path, "parquet"), tmp_path / "logs"
    exported(monkeypatch, log(source, (1, 0, 4), (2, 4, 7), (3, 7, 10)), lake.target)
    log(source, (1, 0, 4), (2, 4, 10), (4, 10, 12), checkpoint=checkpoint)
    with pytest.raises(JobError, match="offsets 4 up to 10 of a-0 as they were in leader epoch 3"):
        exported(monkeypatch, source, lake.target)
    exported(monkeypatch, source, lake.target, repair=True)
    assert sizes(lake) == values((1, 0, 4), (2, 4, 10), (4, 10, 12))
    assert exported(monkeypatch, source, lake.target).epochs == {A: {12: 4}}
