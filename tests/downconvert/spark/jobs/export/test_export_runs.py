"""Runs of an export do what each of their options says, whatever the kind of the target.

Each log has several kinds of records: aborted ones, some behind the high watermark, damaged ones.
The tasks run in this process."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from downconvert.spark.errors import CorruptSegmentError
from downconvert.spark.jobs.export import export, export_directory
from downconvert.spark.jobs.export.export_directory import STAGING
from downconvert.spark.jobs.jobs import JobError
from records import ControlRecordType, build_marker
from tests.downconvert.spark.in_process import SESSION, without_spark
from tests.downconvert.spark.reading import partition
from tests.downconvert.storage.logs import batch

DAY = 86_400_000
LOST: Any = {"producer_id": 7, "producer_epoch": 0, "transactional": True}


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`a` has aborted records at 3 and 4, and the high watermark 7 of 8. `b` is damaged at 1."""
    without_spark(monkeypatch)
    monkeypatch.setattr(export_directory, "counts", lambda _, written: written)
    monkeypatch.setattr(export_directory, "archive_of", lambda _, target: target)
    path = tmp_path / "logs"
    abort = build_marker(ControlRecordType.ABORT, offset=5, timestamp=0, producer_id=7)
    whole = [batch(0, 1, 2, timestamp=DAY), batch(3, 4, timestamp=DAY, **LOST), abort]
    partition(path, b"".join([*whole, batch(6, timestamp=3 * DAY), batch(7)]), "a-0")
    partition(path, batch(0) + batch(1)[:-1] + b"?" + batch(2, 3), "b-4")
    (path / "replication-offset-checkpoint").write_text("0\n2\na 0 7\nb 4 4\n")
    return path


def exported(logs: Path, target: Path | str, **options: Any) -> list[tuple[str, int, int]]:
    """A run's records: topic, partition and offset."""
    export.run(SESSION, [str(logs)], str(target), **options)
    return there(target)


def there(target: Path | str) -> list[tuple[str, int, int]]:
    files, path = fsspec.core.url_to_fs(str(target))
    found = []
    for name in files.glob(f"{path}/topic=*/date=*/*.parquet"):
        topic = name.split("/")[-3].removeprefix("topic=")
        data = pa.BufferReader(files.cat_file(name))
        rows = pq.ParquetFile(data).read(["partition", "offset"]).to_pylist()
        found += [(topic, *row.values()) for row in rows]
    return sorted(found)


def of_a(*offsets: int) -> list[tuple[str, int, int]]:
    return [("a", 0, offset) for offset in offsets]


@pytest.fixture(params=["directory", "store"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path / "lake")
        return
    yield f"memory://{tmp_path.name}/lake"
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


OF_B = [("b", 4, 0), ("b", 4, 2), ("b", 4, 3)]
FROM_2 = {"startingOffsets": '{"a": {"0": 2}}'}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topics": ["a"]}, of_a(0, 1, 2, 3, 4, 6)),
        ({"topics": ["?"], "skip_damaged": True}, [*of_a(0, 1, 2, 3, 4, 6), *OF_B]),
        ({"topics": ["a"], "committed": True}, of_a(0, 1, 2, 6)),
        ({"topics": ["a"], "past_high_watermark": True}, of_a(0, 1, 2, 3, 4, 6, 7)),
        ({"topics": ["a"], "between": FROM_2}, of_a(2, 3, 4, 6)),
        ({"topics": ["a"], "between": FROM_2, "committed": True}, of_a(2, 6)),
    ],
    ids=str,
)
def test_a_run_adds_what_its_options_ask_for(
    logs: Path, target: str, options: dict[str, Any], expected: list[Any]
) -> None:
    assert exported(logs, target, **options) == expected


def test_damage_ends_a_run_and_nothing_is_left_of_it(logs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with pytest.raises(CorruptSegmentError, match=rf"{logs}/b-4/0+\.log: checksum does not match"):
        exported(logs, lake)
    assert there(lake) == []
    assert not [*lake.glob(f"{STAGING}*")]
    assert len(exported(logs, lake, topics=["a"])) == 6


def test_truncated_records_end_a_run_or_are_replaced(logs: Path, tmp_path: Path) -> None:
    lake, options = tmp_path / "lake", {"topics": ["c"], "past_high_watermark": True}
    for name, end in (("c-1", 5), ("c-2", 3)):
        partition(logs, batch(*range(end), timestamp=DAY, leader_epoch=0), name)
    exported(logs, lake, **options)
    for name, end in (("c-1", 2), ("c-2", 3)):
        old = batch(*range(end), timestamp=DAY, leader_epoch=0)
        new = batch(*range(end, 4), timestamp=DAY, leader_epoch=6)
        text = f"0\n2\n0 0\n6 {end}\n"
        (partition(logs, old + new, name) / "leader-epoch-checkpoint").write_text(text)
    words = (
        f"^{lake} has offsets 2 up to 5 of c-1 as they were in leader epoch 0; a later leader has "
        r"truncated them: run it with repair \(--repair\), which replaces them, or name another"
    )
    with pytest.raises(JobError, match=words):
        exported(logs, lake, **options)
    assert len(there(lake)) == 8
    found = exported(logs, lake, repair=True, **options)
    assert found == [("c", number, offset) for number in (1, 2) for offset in range(4)]


def test_an_error_names_a_store_without_its_parameters(logs: Path, tmp_path: Path) -> None:
    lake, meta = f"memory://{tmp_path.name}/lake", logs / "meta.properties"
    for cluster in ("one", "two"):
        meta.write_text(f"version=0\ncluster.id={cluster}\n")
        if cluster == "one":
            export.run(SESSION, [str(logs)], f"{lake}?purpose=test", topics=["a"])
    with pytest.raises(JobError, match=f"^{lake} holds records of the cluster one, .*name another"):
        export.run(SESSION, [str(logs)], f"{lake}?purpose=test", topics=["a"])


def test_options_that_select_nothing_are_refused_before_a_run(logs: Path, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="columns: an export takes startingOffsets, "):
        exported(logs, tmp_path / "lake", between={"columns": "offset"})
    with pytest.raises(JobError, match="no topic is called nothing; there is a, b"):
        exported(logs, tmp_path / "lake", topics=["nothing"])
    assert not (tmp_path / "lake").exists()
