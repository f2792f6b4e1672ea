"""Runs of a conversion to a directory, in this process: converted, kept, copied, refused."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.spark.jobs.convert import convert
from downconvert.spark.jobs.convert.convert_segment import Task, convert_segment
from downconvert.spark.jobs.convert.manifest import MANIFEST
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage.names import Kind, file_name
from tests.downconvert.spark.in_process import SESSION, without_spark
from tests.downconvert.spark.reading import packed
from tests.downconvert.storage.logs import batch, segment

TO_V1, TO_V2 = Settings(to_magic=1), Settings(to_magic=2)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two logs, the first one of two segments, and what a broker keeps beside them."""
    path = tmp_path / "logs"
    path.mkdir()
    for name, base in (("a-0", 0), ("a-0", 5), ("b-2", 0)):
        segment(path / name, base, batch(base, base + 1, magic=1), batch(base + 2, magic=1))
    (path / "meta.properties").write_text("version=1\ncluster.id=one\nnode.id=3\n")
    (path / "log-start-offset-checkpoint").write_text("0\n1\na 0 1\n")
    (path / "recovery-point-offset-checkpoint").write_text("0\n1\na 0 5\n")
    for name in (".lock", ".kafka_cleanshutdown"):
        (path / name).touch()
    return path


def run(
    patch: pytest.MonkeyPatch,
    paths: list[Path],
    target: Path | str,
    settings: Settings,
    topics: Sequence[str] = (),
) -> list[str]:
    """The status of each segment."""

    def summary(found: Any) -> Any:
        status = [row["status"] if isinstance(row, dict) else row.status for row in found.collect()]
        return SimpleNamespace(status=status, failed=status.count("failed"))

    with patch.context() as patched:
        without_spark(patched)
        patched.setattr(convert, "summary_of", summary)
        found: Any = convert.run(
            SESSION, list(map(str, paths)), str(target), settings, topics=topics
        )
        statuses: list[str] = found.status
        return statuses


def beside(target: Path) -> set[str]:
    return {path.name for path in target.iterdir() if path.is_file()} - {MANIFEST}


@pytest.mark.parametrize("settings", [TO_V1, TO_V2], ids=["v1", "v2"])
def test_files_of_a_broker_are_copied_except_for_marks_of_a_running_one(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    target = tmp_path / "out"
    assert run(monkeypatch, [source], target, settings) == ["converted"] * 3
    expected = {"meta.properties", "log-start-offset-checkpoint"}
    if settings is TO_V2:
        expected.add("recovery-point-offset-checkpoint")
    assert beside(target) == expected
    for name in expected:
        assert (target / name).read_bytes() == (source / name).read_bytes()


def test_a_failed_segment_or_another_source_leaves_those_files_out(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment(tmp_path / "c-0", 0, batch(0, magic=1))
    assert len(run(monkeypatch, [source, tmp_path / "c-0"], tmp_path / "both", TO_V2)) == 4
    assert beside(tmp_path / "both") == set()
    (tmp_path / "tarred").mkdir()
    segment(tmp_path / "tarred" / "d-0", 0, batch(0, magic=1))
    tar = packed(tmp_path / "tarred")
    assert len(run(monkeypatch, [source, tar], tmp_path / "tar", TO_V2)) == 4
    assert beside(tmp_path / "tar") == set()
    path = source / "b-2" / file_name(0, Kind.LOG)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"?")
    target = tmp_path / "out"
    assert run(monkeypatch, [source], target, TO_V2) == ["converted", "converted", "failed"]
    assert beside(target) == set()
    assert not (target / "b-2" / path.name).exists()
    path.write_bytes(good)
    assert run(monkeypatch, [source], target, TO_V2) == ["kept", "kept", "converted"]
    assert "meta.properties" in beside(target)
    assert run(monkeypatch, [source], target, TO_V2) == ["kept"] * 3
    log = target / "a-0" / file_name(5, Kind.LOG)
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    assert run(monkeypatch, [source], target, TO_V2) == ["kept", "converted", "kept"]
    assert log.read_bytes()[-1:] != b"?"


def test_a_target_is_of_one_conversion_and_not_among_the_sources(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    target.mkdir()  # an empty one is as good as none
    run(monkeypatch, [source], target, TO_V1)
    with pytest.raises(JobError, match=r"holds a conversion to v1 .* and this is one to v2"):
        run(monkeypatch, [source], target, TO_V2)
    (tmp_path / "link").symlink_to(source)
    for within in (source / "within" / "out", tmp_path / "link" / "out"):
        with pytest.raises(JobError, match=f"{within} is inside of {source}: name a directory out"):
            run(monkeypatch, [source], within, TO_V1)
    (tmp_path / "logs-2").mkdir()  # a longer name is not inside
    assert run(monkeypatch, [source], tmp_path / "logs-2", TO_V1) == ["converted"] * 3
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(JobError, match="holds other things"):
        run(monkeypatch, [source], tmp_path / "other", TO_V1)


def test_a_segment_that_is_not_there_any_more_is_missing(source: Path, tmp_path: Path) -> None:
    """The one before it, whose offsets go up to it, is another one."""
    task = Task(
        topic="a",
        partition=0,
        base_offset=2,
        source=str(source / "a-0"),
        target=str(tmp_path / "out" / "a-0"),
        settings=TO_V1,
    )
    with pytest.raises(FileNotFoundError, match="no such segment"):
        convert_segment(task, attempt="1")
    assert not (tmp_path / "out").exists()
