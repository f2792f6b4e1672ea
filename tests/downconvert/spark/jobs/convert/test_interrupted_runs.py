"""A run of a conversion that ends halfway, or that is asked for a part: what it leaves, says and
passes on to its tasks.

Not here: tasks that die (test_convert_segment_faults.py, test_convert_stored.py)."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest

from downconvert.spark.jobs.convert import convert
from downconvert.spark.jobs.convert.convert_segment import WORK_PREFIX, Task
from downconvert.spark.jobs.convert.manifest import MANIFEST, parse
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.jobs import JobError
from downconvert.storage import DiskFullError
from downconvert.storage.names import LEADER_EPOCHS, PARTITION_METADATA
from tests.downconvert.spark.in_process import SESSION, in_process, without_spark
from tests.downconvert.spark.reading import packed
from tests.downconvert.storage.logs import batch, segment

TO_V2 = Settings(to_magic=2)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two topics. The log of the first one has two segments."""
    without_spark(monkeypatch)
    monkeypatch.setattr(convert, "manifest", lambda *_: None)
    path = tmp_path / "logs"
    path.mkdir()
    for name, base in (("a-0", 0), ("a-0", 5), ("b-2", 0)):
        segment(path / name, base, batch(base, base + 1, magic=1), batch(base + 2, magic=1))
    (path / "a-0" / PARTITION_METADATA).write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    (path / "a-0" / LEADER_EPOCHS).write_text("0\n1\n3 0\n")
    return path


@pytest.fixture(params=["directory", "store"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path / "out")
        return
    yield f"memory://{tmp_path.name}/out"
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def listed(target: str) -> list[tuple[str, int]]:
    """The segments in a target's manifest."""
    files, path = fsspec.core.url_to_fs(target)
    entries = map(parse, files.cat_file(f"{path}/{MANIFEST}").splitlines())
    return [(entry.topic, entry.segment) for entry in entries]


def leftovers(target: Path) -> list[str]:
    return [path.name for path in target.glob(f"*/{WORK_PREFIX}*")]


def left_behind(directory: str, number: int) -> None:
    """A task's folder, as if it had been killed."""
    folder = Path(directory) / f"{WORK_PREFIX}{number:020d}-killed"
    folder.mkdir(parents=True)
    (folder / "file").touch()


def stopping(after: int, *, killed: bool) -> Callable[..., Any]:
    """As `run_tasks`, but Spark stops after so many tasks. `killed`: in the middle of one."""

    def run(session: Any, tasks: list[Task], *given: Any) -> Any:
        in_process(session, tasks[:after], *given)
        if killed:
            left_behind(tasks[after].target, tasks[after].base_offset)
        return None

    return run


def stop(_: Any) -> None:
    raise JobError("Spark has stopped")


def test_the_manifest_of_a_run_that_fails_has_what_was_converted(
    logs: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(convert, "run_tasks", stopping(2, killed=False))
        patch.setattr(convert, "summary_of", stop)
        with pytest.raises(JobError, match="Spark has stopped"):
            convert.run(SESSION, [str(logs)], target, TO_V2)
    assert listed(target) == [("a", 0), ("a", 5)]
    found: Any = convert.run(SESSION, [str(logs)], target, TO_V2)
    assert [row.status for row in found.rows] == ["kept", "kept", "converted"]
    assert listed(target) == [("a", 0), ("a", 5), ("b", 0)]


def test_a_run_removes_what_killed_tasks_have_left_before_and_after_its_own(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    left_behind(str(out / "a-0"), 0)
    (out / "a-0" / "00000000000000000007.converted.json").touch()  # it was a target
    seen: list[list[str]] = []

    def run(*given: Any) -> Any:
        seen.append(leftovers(out))
        return stopping(1, killed=True)(*given)

    monkeypatch.setattr(convert, "run_tasks", run)
    monkeypatch.setattr(convert, "summary_of", stop)
    with pytest.raises(JobError, match="Spark has stopped"):
        convert.run(SESSION, [str(logs)], str(out), TO_V2)
    assert (seen, leftovers(out)) == ([[]], [])


def test_a_target_of_a_run_that_was_killed_before_its_manifest_is_gone_on_with(
    logs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    convert.run(SESSION, [str(logs)], str(out), TO_V2)
    (out / MANIFEST).unlink()
    found: Any = convert.run(SESSION, [str(logs)], str(out), TO_V2)
    assert [row.status for row in found.rows] == ["kept"] * 3


def test_only_the_topics_that_are_asked_for_are_converted(logs: Path, target: str) -> None:
    convert.convert(SESSION, [str(logs)], target, TO_V2, topics=["b"])
    assert listed(target) == [("b", 0)]
    convert.run(SESSION, [str(logs)], target, TO_V2, topics=["[ax]"])
    assert listed(target) == [("a", 0), ("a", 5), ("b", 0)]


@pytest.mark.parametrize("error", [OSError(28, "no space left"), DiskFullError("no space left")])
def test_a_machine_that_fails_is_named_with_the_segments_directory(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(task: Task, **_: Any) -> Any:
        if task.topic == "b":
            raise error
        return made(task, attempt="1")

    made = convert.convert_segment
    monkeypatch.setattr(convert, "convert_segment", fail)
    found: Any = convert.run(SESSION, [str(logs)], str(tmp_path / "out"), TO_V2)
    assert [row.status for row in found.rows] == ["converted", "converted", "failed"]
    assert found.rows[2].error == f"{logs}/b-2: {error}"


def test_a_store_may_have_the_logs_and_the_target_beside_each_other(
    logs: Path, tmp_path: Path
) -> None:
    """Even if the name of one begins with the other's."""
    store, files = f"memory://{tmp_path.name}", fsspec.filesystem("memory")
    files.put(str(logs), f"/{tmp_path.name}/logs", recursive=True)
    for within in (f"{store}/logs", f"{store}/logs/out"):
        words = f"^{within} is inside of {store}/logs: name a folder outside of it$"
        with pytest.raises(JobError, match=words):
            convert.run(SESSION, [f"{store}/logs"], within, TO_V2)
    found: Any = convert.run(SESSION, [f"{store}/logs"], f"{store}/logs-2", TO_V2)
    assert [row.status for row in found.rows] == ["converted"] * 3


def test_a_task_has_one_segment_and_the_first_one_the_files_of_the_partition(
    logs: Path, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task copies what it has to the machine that it runs on."""
    passed: list[Task] = []

    def noted(session: Any, tasks: list[Task], *given: Any) -> Any:
        passed.extend(tasks)
        return in_process(session, tasks, *given)

    monkeypatch.setattr(convert, "run_tasks", noted)
    convert.run(SESSION, [str(packed(logs))], target, TO_V2, topics=["a"])
    sides = [{name for name, _ in task.log.sides} for task in passed if task.log is not None]
    of_partition = {PARTITION_METADATA, LEADER_EPOCHS}
    assert [found & of_partition for found in sides] == [of_partition, set()]
    files, path = fsspec.core.url_to_fs(target)
    for name in of_partition:
        assert files.cat_file(f"{path}/a-0/{name}") == (logs / "a-0" / name).read_bytes()
    passed.clear()
    store = f"memory://{tmp_path.name}/from-here"
    convert.run(SESSION, [str(logs)], store, TO_V2, topics=["a"])
    for task in passed:
        assert task.log is not None
        assert [file.base_offset for file in task.log.segments] == [task.base_offset]
