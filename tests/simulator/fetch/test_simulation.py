"""A simulation from files to its result."""

from pathlib import Path

import pytest

from simulator import Options, SimulationError, segment_files, simulate
from tests.simulator.segments import batch, written


def test_files_are_taken_as_they_are_and_directories_searched(tmp_path: Path) -> None:
    (tmp_path / "topic-1").mkdir()
    inside = written(tmp_path / "topic-1", batch([0]))
    (tmp_path / "topic-1" / "leader-epoch-checkpoint").touch()
    odd = written(tmp_path, batch([0]), name="segment.old")
    assert segment_files([odd, tmp_path]) == [odd, inside]


def test_a_directory_without_segments_is_said(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match=r"holds no \.log file"):
        segment_files([tmp_path])


def test_each_mode_is_planned_run_and_told_of(tmp_path: Path) -> None:
    path = written(tmp_path, *(batch(range(at, at + 50)) for at in range(0, 1000, 50)))
    steps: list[str] = []
    options = Options(consumers=2, slow=0, max_bytes=20_000, modes=("lazy", "zero-copy"))
    result = simulate("mine", [path], options, lambda what, _done, _total: steps.append(what))
    assert list(result.modes) == ["lazy", "zero-copy"]
    assert (result.name, result.records, result.size) == ("mine", 1000, path.stat().st_size)
    assert result.failures() == []
    assert set(steps) <= {"lazy: plan", "zero-copy: plan", "lazy", "zero-copy"}
