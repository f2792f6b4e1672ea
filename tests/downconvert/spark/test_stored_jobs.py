"""Jobs from and to an object store: audit, convert and export, and what is left of those that are
killed. The store is a program of its own (tests/object_store.py)."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from downconvert.spark.jobs import find
from downconvert.spark.jobs.audit import audit
from downconvert.spark.jobs.convert import convert
from downconvert.spark.jobs.convert.manifest import MANIFEST, parse
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.export.export_manifest import FOLDER
from downconvert.spark.jobs.export.export_stored_notes import StoredNotes
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.stores.stores import pinned
from downconvert.storage.names import Kind, file_name
from records import Codec
from tests.downconvert.storage.logs import batch, indexed_segment, segment
from tests.object_store import ObjectStore

from .exporting import exported_archive
from .reading import rows

pytestmark = pytest.mark.others

URI: Final = "s3a://bucket"
DAY: Final = 86_400_000  # milliseconds
ROOT: Final = Path(__file__).parents[3]
V1: Final = Settings(to_magic=1)


@pytest.fixture(scope="module")
def logs(store: tuple[ObjectStore, Path]) -> Path:
    """A broker's directory of four segments."""
    directory = store[1] / "logs"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=one\n")
    batches = [batch(offset, size=1000, timestamp=DAY * (offset // 50)) for offset in range(200)]
    indexed_segment(directory / "orders-0", 0, *batches[:90], interval=4096)
    indexed_segment(directory / "orders-0", 90, *batches[90:150], interval=4096)
    indexed_segment(directory / "orders-0", 150, *batches[150:], interval=4096)
    segment(directory / "old-1", 0, batch(0, magic=0), batch(1, 2, codec=Codec.GZIP, magic=1))
    (directory / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return directory


@pytest.fixture(autouse=True)
def workers_know_the_store(store: tuple[ObjectStore, Path], spark: SparkSession) -> Iterator[None]:
    """Spark's workers have the environment that its JVM was started with, and this."""
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment.update(store[0].environment)
    yield
    environment.clear()
    environment.update(before)


def keys(path: Path | str) -> list[tuple[str, int, bytes]]:
    return sorted((row["topic"], row["offset"], row["value"]) for row in rows(path))


def test_audit_and_find_say_the_same(spark: SparkSession, logs: Path) -> None:
    without = ("v1", "v0")
    here, there = (
        [
            {name: value for name, value in row.asDict().items() if name not in without}
            for row in sorted(audit.run(audit.audit(spark, [path])), key=str)
        ]
        for path in (str(logs), f"{URI}/logs")
    )
    assert there == here
    assert here
    found, is_all = find.run(find.find(spark, [f"{URI}/logs"], [b"none"]), 5)
    assert (found, is_all) == ([], True)


def test_convert_from_and_to_a_store(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    here = convert.run(spark, [str(logs)], str(tmp_path / "here"), V1)
    for source, target, runs in (
        (f"{URI}/logs", f"{URI}/converted", ("converted", "kept")),
        (str(logs), f"{URI}/converted-too", ("converted",)),
        (f"{URI}/logs", str(tmp_path / "there"), ("converted",)),
    ):
        for status in runs:
            summary = convert.run(spark, [source], target, V1)
            assert (summary.failed, getattr(summary, status)) == (0, 4), summary.errors
            assert summary.target_size == here.target_size
        assert keys(target) == keys(tmp_path / "here")
        assert convert.manifest(spark, target).count() == 4
    converted = logs.parent / "converted"
    for path in (tmp_path / "here").rglob("0*"):
        if path.suffix != ".json":
            copy = converted / path.relative_to(tmp_path / "here")
            assert copy.read_bytes() == path.read_bytes()
    (entry, *_) = [parse(line) for line in (converted / MANIFEST).read_bytes().splitlines()]
    assert entry.source.startswith("s3://bucket/logs/")
    assert entry.target.startswith("s3://bucket/converted/")
    with pytest.raises(JobError, match="holds a conversion to"):
        convert.run(spark, [f"{URI}/logs"], f"{URI}/converted", Settings(to_magic=0))
    with pytest.raises(JobError, match="inside of"):
        convert.run(spark, [f"{URI}/logs"], f"{URI}/logs/converted", V1)
    with pytest.raises(JobError, match="holds other things"):
        convert.run(spark, [f"{URI}/logs/orders-0"], f"{URI}/logs", V1)


def test_export_to_a_store(spark: SparkSession, logs: Path) -> None:
    for _ in range(2):
        frame = exported_archive(spark, [f"{URI}/logs"], f"{URI}/lake")
        found = sorted((row.topic, row.offset, bytes(row.value)) for row in frame.collect())
        assert found == keys(logs)
    days = {row.date and str(row.date) for row in frame.select("date").distinct().collect()}
    assert days == {None, "1970-01-01", "1970-01-02", "1970-01-03", "1970-01-04"}
    segment(logs / "orders-0", 200, batch(200, 201, timestamp=DAY))
    try:
        frame = exported_archive(spark, [str(logs)], f"{URI}/lake")
        assert frame.where("topic = 'orders'").count() == 202
    finally:
        (logs / "orders-0" / file_name(200, Kind.LOG)).unlink()


def test_files_stay_if_their_notes_are_lost(spark: SparkSession, logs: Path) -> None:
    lake = logs.parent / "without-notes"
    for _ in range(2):
        exported_archive(spark, [f"{URI}/logs"], f"{URI}/without-notes")
        names = {str(path.relative_to(lake)) for path in lake.rglob("*.parquet")}
        assert StoredNotes(pinned(f"{URI}/without-notes")).read("read_uncommitted").files == names
        shutil.rmtree(lake / FOLDER)
    offsets = [
        (f"topic={path.parent.parent.name.removeprefix('topic=')}", offset)
        for path in lake.rglob("*.parquet")
        for offset in pq.read_table(path, partitioning=None)["offset"].to_pylist()
    ]
    assert sorted(offsets) == [(f"topic={topic}", offset) for topic, offset, _ in keys(logs)]


def run(job: str, target: str, number: int) -> "subprocess.CompletedProcess[str]":
    module = "tests.downconvert.spark.dying_job"
    return subprocess.run(
        [sys.executable, "-m", module, job, f"{URI}/logs", target, str(number)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("job", ["export", pytest.param("convert", marks=pytest.mark.more)])
def test_a_job_that_is_killed_leaves_no_record_twice_or_missing(logs: Path, job: str) -> None:
    target = logs.parent / f"killed-{job}"
    uri = f"{URI}/{target.name}"
    died = 0
    for number in (2, 5):  # the second goes on from what the first has left
        ended = run(job, uri, number)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        died += 1
        if job == "export":
            assert StoredNotes(pinned(uri)).read("read_uncommitted").files == set()
        else:
            assert not (target / MANIFEST).exists()
    assert died >= 2
    ended = run(job, uri, 10_000)
    assert ended.returncode == 0, ended.stderr
    if job == "convert":
        assert keys(uri) == keys(logs)
        entries = [parse(line) for line in (target / MANIFEST).read_bytes().splitlines()]
        assert sorted(entry.segment for entry in entries) == [0, 0, 90, 150]
        return
    named = StoredNotes(pinned(uri)).read("read_uncommitted").files
    there = {str(path.relative_to(target)) for path in target.rglob("*.parquet")}
    assert there == named
    offsets = sorted(
        (name.partition("/")[0], offset)
        for name in named
        for offset in pq.read_table(target / name, partitioning=None)["offset"].to_pylist()
    )
    assert offsets == [(f"topic={topic}", offset) for topic, offset, _ in keys(logs)]
