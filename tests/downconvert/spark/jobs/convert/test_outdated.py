"""A log that changes between two runs of a conversion: its target never holds offsets twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from downconvert.spark.jobs.convert import convert
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.in_process import SESSION, without_spark
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

OFFSETS = (0, 2, 4)  # of the segments


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for base in OFFSETS:
        partition(tmp_path / "logs", batch(base, base + 1), "a-0", base)
    return tmp_path / "logs"


@pytest.fixture(params=["directory", "store"])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path / "out")
        return
    yield f"memory://{tmp_path.name}/out"
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def converted(patch: pytest.MonkeyPatch, source: Path, target: str) -> list[Any]:
    with patch.context() as patched:
        without_spark(patched)
        found: Any = convert.run(SESSION, [str(source)], target, Settings(to_magic=2))
    return [(row.segment, row.status) for row in found.rows]


def without(source: Path, *bases: int) -> None:
    for base in bases:
        (source / "a-0" / file_name(base, Kind.LOG)).unlink()


@pytest.mark.parametrize("gone", [(2,), (4,), (2, 4)])
def test_a_target_with_segments_that_the_log_no_longer_has_is_refused(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch, gone: tuple[int, ...]
) -> None:
    """Cleaned: the segments before have their records. Or truncated, or recreated."""
    assert len(converted(monkeypatch, source, target)) == 3
    without(source, *gone)
    with pytest.raises(JobError, match=rf"{gone[0]:020d}\.log, which is gone.* remove .* a-0, or"):
        converted(monkeypatch, source, target)


def test_segments_that_retention_has_deleted_stay_in_the_target(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted(monkeypatch, source, target)
    without(source, 0, 2)
    partition(source, batch(6), "a-0", 6)
    assert converted(monkeypatch, source, target) == [(4, "kept"), (6, "converted")]


def test_parts_of_a_log_may_be_converted_one_after_the_other(
    source: Path, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later part may come first."""
    partition(tmp_path / "later", batch(6), "a-0", 6)
    converted(monkeypatch, tmp_path / "later", target)
    assert len(converted(monkeypatch, source, target)) == 3


def test_a_segment_that_only_another_copy_had_is_of_the_log_too(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader's copy lacks the first segments. Then it has their records, in one segment."""
    (source / "a-0").rename(source / "old")
    (source / "b1").mkdir()
    (source / "old").rename(source / "b1" / "a-0")
    partition(source / "b2", batch(4, 5), "a-0", 4)
    partition(source / "b2", batch(6), "a-0", 6)
    assert [base for base, _ in converted(monkeypatch, source, target)] == [0, 2, 4, 6]
    partition(source / "b2", batch(0, 1, 2, 3), "a-0", 0)
    with pytest.raises(JobError, match=rf"b1/a-0/{2:020d}\.log, which is gone"):
        converted(monkeypatch, source, target)


def test_a_segment_that_could_not_be_converted_is_in_no_target(
    source: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition(source, batch(2, 3)[:-1] + b"?", "a-0", 2)
    assert (2, "failed") in converted(monkeypatch, source, target)
    without(source, 2)
    partition(source, batch(0, 1, 2, 3), "a-0", 0)
    assert [base for base, _ in converted(monkeypatch, source, target)] == [0, 4]
