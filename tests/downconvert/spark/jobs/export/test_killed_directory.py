"""A run into a directory that dies while its files come to their places: the next run finishes it
first, and so knows of which log they are."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from downconvert.spark.jobs.export.export_manifest import FOLDER
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage import TopicPartition
from tests.downconvert.spark.exporting import archived, exported
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

DAY = 86_400_000
A = TopicPartition("a", 0)
IDS = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
MOVES = 3  # one for each day
STEPS = range(MOVES + 1)  # the last one is after all moves


def logs(path: Path, *epochs: int, topic_id: str = IDS[0]) -> Path:
    """A record a day, in these leader epochs."""
    shutil.rmtree(path, ignore_errors=True)
    data = (
        batch(offset, timestamp=(1 + offset) * DAY, size=10 + epoch, leader_epoch=epoch)
        for offset, epoch in enumerate(epochs)
    )
    directory = partition(path, b"".join(data), "a-0")
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return path


def records(lake: Path) -> list[tuple[int, int]]:
    """Offsets and epochs."""
    return [(row[2], len(row[3]) - 10) for row in archived(lake)]


def dies(patch: pytest.MonkeyPatch, source: Path, lake: Path, step: int) -> None:
    """A run that dies before a move, or after the last one."""
    left, whole = [step], Path.replace

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    def replace(path: Path, target: Any) -> Path:
        if path.suffix == ".parquet" and ".parquet." not in path.name:
            if not left[0]:
                die()
            left[0] -= 1
        return whole(path, target)

    with patch.context() as dying:
        dying.setattr(Path, "replace", replace)
        dying.setattr("os.sync", die)
        with pytest.raises(KeyboardInterrupt):
            exported(patch, source, lake)


@pytest.mark.parametrize("step", STEPS)
def test_records_are_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    source, lake = logs(tmp_path / "logs", 0, 0, 0), tmp_path / "lake"
    dies(monkeypatch, source, lake, step)
    logs(source, 0, 0, 0, 0)
    there = exported(monkeypatch, source, lake)
    assert there.ranges == {A: [(0, 4)]}
    assert records(lake) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert there.files == {str(one.relative_to(lake)) for one in lake.rglob("*.parquet")}
    assert sorted(one.name for one in lake.iterdir()) == [FOLDER, "topic=a"]
    assert len(list((lake / FOLDER).iterdir())) == 1


@pytest.mark.parametrize("step", STEPS)
def test_records_truncated_after_a_killed_run_are_not_taken_for_those_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    source, lake = logs(tmp_path / "logs", 0, 0, 0), tmp_path / "lake"
    dies(monkeypatch, source, lake, step)
    logs(source, 0, 2, 2, 2)
    with pytest.raises(JobError, match="offsets 1 up to 3 of a-0 as they were in leader epoch 0"):
        exported(monkeypatch, source, lake)
    exported(monkeypatch, source, lake, repair=True)
    assert records(lake) == [(0, 0), (1, 2), (2, 2), (3, 2)]


@pytest.mark.parametrize("step", STEPS)
def test_a_topic_that_was_made_anew_after_the_run_died_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    source, lake = logs(tmp_path / "logs", 0, 0, 0), tmp_path / "lake"
    dies(monkeypatch, source, lake, step)
    logs(source, 0, 0, 0, 0, topic_id=IDS[1])
    with pytest.raises(JobError, match="a was deleted and recreated"):
        exported(monkeypatch, source, lake)


def test_files_that_are_lost_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine may have died with the run, and a disk forgets names that were not synced."""
    source, lake = logs(tmp_path / "logs", 0, 0, 0), tmp_path / "lake"
    dies(monkeypatch, source, lake, MOVES)
    next(lake.glob("topic=a/*/*.parquet")).unlink()
    exported(monkeypatch, source, lake)
    assert records(lake) == [(0, 0), (1, 0), (2, 0)]
