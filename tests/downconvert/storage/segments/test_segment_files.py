"""Segments in paths that a person names."""

from pathlib import Path

import pytest

from downconvert.storage.segments.segment_files import segment_files
from tests.simulator.segments import batch, written


def test_files_are_taken_as_they_are_and_directories_searched(tmp_path: Path) -> None:
    (tmp_path / "topic-1").mkdir()
    inside = written(tmp_path / "topic-1", batch([0]))
    (tmp_path / "topic-1" / "leader-epoch-checkpoint").touch()
    odd = written(tmp_path, batch([0]), name="segment.old")
    assert segment_files([odd, tmp_path]) == [odd, inside]


def test_a_directory_without_segments_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no \.log file"):
        segment_files([tmp_path])
