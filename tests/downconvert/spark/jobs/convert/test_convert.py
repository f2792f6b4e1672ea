"""Whole directories are converted on Spark, whatever happens to workers on the way."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark
import pytest
from pyspark.sql import SparkSession

from downconvert.spark.jobs.convert.convert import convert, plan, run
from downconvert.spark.jobs.convert.convert_segment import WORK_PREFIX
from downconvert.spark.jobs.convert.manifest import MANIFEST, is_true, read_manifest
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.jobs import JobError
from downconvert.spark.jobs.shipping import FOLDER, write_archive
from downconvert.storage import LogDir
from records import Codec, build
from records.backend import NAME
from records.batches.columns import Columns
from records.formats import V2
from tests.downconvert.spark.killing import kill_once
from tests.downconvert.storage.logs import batch, segment
from tests.spark_jvm import quick_jvm

TO_V1 = Settings(to_magic=1)
TO_V2 = Settings(to_magic=2)
WORKERS_MAX: Final = 8  # that wait in the pool of a session on two cores


@pytest.fixture(scope="module")
def real(real: Path) -> Path:
    return real / "0.8.2.2" / "log"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two topics: one of v1, one with a damaged segment."""
    path = tmp_path / "logs"
    path.mkdir()
    for base in (0, 10):
        segment(path / "good-0", base, *(batch(n, magic=1) for n in range(base, base + 5)))
    segment(path / "bad-1", 0, batch(0, magic=1)[:-1] + b"?")
    segment(path / "bad-1", 10, batch(10, magic=1))
    return path


def test_a_real_directory_becomes_v2_and_is_read_back_as_it_was(
    spark: SparkSession, real: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    rows = convert(spark, [str(real)], str(target), TO_V2).collect()
    with LogDir.open(real) as before, LogDir.open(target) as after:
        assert list(after.logs) == list(before.logs)
        assert sum(len(log.segments) for log in before.logs.values()) == len(rows)
        for partition, log in after.logs.items():
            assert all(header.magic == V2 for _, header in log.batches())
            ours = [(r.offset, r.key, r.value) for r in log.records()]
            theirs = [(r.offset, r.key, r.value) for r in before.logs[partition].records()]
            assert ours == theirs
    assert {row.status for row in rows} == {"converted"}
    assert [row.asDict() for row in rows] == [
        json.loads(line) for line in (target / MANIFEST).read_text().splitlines()
    ]


def test_a_second_run_goes_on_where_the_first_one_stopped(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    first = run(spark, [str(source)], str(target), TO_V2)
    assert (first.converted, first.kept, first.failed) == (3, 0, 1)
    assert "checksum does not match" in first.errors[0]
    entries = list(read_manifest(target))
    assert first.source_size == sum(entry.source_size for entry in entries)
    assert first.target_size == sum(entry.target_size for entry in entries) != first.source_size
    assert first.cpu_seconds == pytest.approx(sum(entry.cpu_seconds for entry in entries))
    assert first.peak_memory == max(entry.peak_memory for entry in entries)
    (source / "bad-1" / "00000000000000000000.log").write_bytes(batch(0, magic=1))
    (target / "good-0" / "00000000000000000010.log").unlink()
    second = run(spark, [str(source)], str(target), TO_V2)
    assert (second.converted, second.kept, second.failed) == (2, 2, 0)
    entries = list(read_manifest(target))
    assert [(e.topic, e.segment, e.status) for e in entries] == [
        ("bad", 0, "converted"),
        ("bad", 10, "converted"),
        ("good", 0, "converted"),
        ("good", 10, "converted"),
    ]
    assert all(is_true(entry, target / f"{entry.topic}-{entry.partition}") for entry in entries)


def test_topics_are_chosen_by_patterns(source: Path, tmp_path: Path) -> None:
    tasks = plan([str(source)], tmp_path / "out", TO_V1, ["g*", "other"])
    assert {task.topic for task in tasks} == {"good"}


@pytest.mark.parametrize(
    ("target", "topics", "words"),
    [
        ("logs/out", [], "is inside of"),
        ("logs", [], "is inside of"),
        ("other", [], "holds other things"),
        ("out", ["nothing"], "no topic is called nothing; there is bad, good"),
    ],
)
def test_impossible_conversions_are_reported_before_any_work(
    source: Path, tmp_path: Path, target: str, topics: list[str], words: str
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thing").touch()
    with pytest.raises(JobError, match=words):
        plan([str(source)], tmp_path / target, TO_V1, topics)


def test_a_directory_without_partitions_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no partitions there"):
        plan([str(tmp_path)], tmp_path.with_name("out"), TO_V1, [])


def test_a_target_holds_one_format(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    run(spark, [str(source)], str(tmp_path / "out"), TO_V1, topics=["good"])
    with pytest.raises(JobError, match=r"holds a conversion to v1 .* and this is one to v2"):
        plan([str(source)], tmp_path / "out", TO_V2, [])


# --- killed


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Four segments that take a second each."""
    path = tmp_path / "large"
    path.mkdir()
    for base in range(0, 80_000, 20_000):
        batches = [
            build(
                Columns(
                    range(at, at + 1000),
                    [1_700_000_000_000] * 1000,
                    [None] * 1000,
                    [b"%d" % n for n in range(at, at + 1000)],
                ),
                magic=V2,
                codec=Codec.GZIP,
            )
            for at in range(base, base + 20_000, 1000)
        ]
        segment(path / "large-0", base, *batches)
    return path


def check(target: Path, *, segments: int) -> None:
    """Nothing half done is there, and what the manifest says is true."""
    directory = target / "large-0"
    assert not list(directory.glob(f"{WORK_PREFIX}*"))
    entries = list(read_manifest(target))
    assert len(entries) >= segments
    assert all(is_true(entry, directory) for entry in entries)


def test_a_run_with_killed_workers_leaves_only_complete_files(
    spark: SparkSession, large: Path, tmp_path: Path
) -> None:
    """Spark does not retry a task without a cluster. So the test runs the job again, as the error
    says: idle workers in Spark's pool were killed too, and each costs one more run."""
    target = tmp_path / "out"
    with (
        kill_once("pyspark.daemon", when=lambda: any(target.glob(f"*/{WORK_PREFIX}*"))) as killed,
        pytest.raises(JobError, match="Python worker exited unexpectedly"),
    ):
        run(spark, [str(large)], str(target), TO_V1)
    assert killed
    check(target, segments=0)
    for _ in range(WORKERS_MAX):
        try:
            done = run(spark, [str(large)], str(target), TO_V1)
            break
        except JobError as error:
            reason = str(error)
        assert reason.endswith("run it again")
    assert (done.converted + done.kept, done.failed) == (4, 0)
    check(target, segments=4)
    settle(spark, target)


def settle(session: SparkSession, directory: Path) -> None:
    """For the tests that share the session: each dead worker of its pool has failed one query."""
    succeeded = 0
    for _ in range(4 * WORKERS_MAX):
        try:
            session.read.format("kafka-segments").load(str(directory)).count()
        except Exception:
            succeeded = 0
        else:
            succeeded += 1
        if succeeded == WORKERS_MAX:
            return
    raise AssertionError("the session's workers do not come back")


# Its own Python finds this package only where Spark has unpacked it: without `site`, nothing that
# is installed in editable mode is seen.
PYTHON: Final = """#!/bin/sh
export PYTHONPATH="$PYTHONPATH:{packages}"
exec {python} -S "$@"
"""
ON_A_CLUSTER: Final = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from downconvert.spark.jobs.convert.convert import run
from downconvert.spark.jobs.convert.rewrite import Settings
from downconvert.spark.jobs.session import open_session
from downconvert.spark.jobs.shipping import settings_for

source, target, archive, scratch = map(Path, sys.argv[1:5])
settings = settings_for(archive) | {
    "spark.driver.extraJavaOptions": sys.argv[5],
    "spark.executor.extraJavaOptions": sys.argv[5],
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.local.dir": str(scratch),
}
with open_session("cluster", "local-cluster[2,1,1024]", settings) as session:
    def where(_):
        from records import native
        from records.backend import NAME
        yield native.__file__, NAME
    found = session.sparkContext.parallelize(range(2), 2).mapPartitions(where).collect()
    done = run(session, [str(source)], str(target), Settings(to_magic=1))
    print(json.dumps([found, asdict(done), session.sparkContext.applicationId]))
"""


@pytest.mark.others
@pytest.mark.timeout(900)
def test_a_cluster_finds_the_package_where_it_was_shipped_and_survives_its_executors(
    large: Path, tmp_path: Path
) -> None:
    target, python = tmp_path / "out", tmp_path / "python"
    packages = Path(pyspark.__file__).parent.parent
    python.write_text(PYTHON.format(packages=packages, python=sys.executable))
    python.chmod(0o755)
    archive = write_archive(tmp_path / "package.zip")
    arguments = (large, target, archive, tmp_path / "scratch", quick_jvm())
    job = subprocess.Popen(
        [sys.executable, "-c", ON_A_CLUSTER, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[5],
        env=os.environ | {"PYSPARK_PYTHON": str(python)},
    )
    executor = "CoarseGrainedExecutorBackend"

    def is_at_work() -> bool:
        return any(target.glob(f"*/{WORK_PREFIX}*"))

    with kill_once(executor, when=is_at_work, below=job.pid, at_most=1) as killed:
        out, _ = job.communicate(timeout=800)
    found, done, application = json.loads(out.splitlines()[-1])
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)
    assert killed
    for path, backend in found:
        assert f"{application}/" in path
        assert f"/{FOLDER}/" in path
        assert backend == NAME
    assert (done["converted"] + done["kept"], done["failed"]) == (4, 0)
    check(target, segments=4)
