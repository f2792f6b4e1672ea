"""The examples of docs/spark.md and of the pages beside it run as they stand."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, Final

import pyiceberg.catalog
import pyspark
import pytest
from pyiceberg.utils.config import Config
from pyspark.sql import SparkSession

from downconvert.internal_topics.group_records import (
    Committed,
    RecordKey,
    write_committed,
    write_key,
)
from downconvert.spark.options.options import Options
from downconvert.storage.names import HIGH_WATERMARKS
from records.units import MiB
from tests.downconvert.cli.running import ROOT, Command
from tests.downconvert.storage.logs import batch, segment
from tests.object_store import ObjectStore

from .reading import kept, partition

TEXT: Final = (ROOT / "docs" / "spark.md").read_text()
OTHERS: Final = ("spark-streams.md", "spark-stores.md", "spark-jobs.md")
WHOLE: Final = TEXT + "".join((ROOT / "docs" / name).read_text() for name in OTHERS)


def examples(language: str) -> list[str]:
    """The code blocks of a language."""
    blocks = re.findall(rf"^```{language}\n((?:.*\n)*?)```$", WHOLE, flags=re.MULTILINE)
    assert len(blocks) == WHOLE.count(f"```{language}\n")
    return blocks


def test_the_examples_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition(tmp_path / "logs", batch(0, 1, 2) + batch(3, 4), "orders-0")
    partition(tmp_path / "logs", batch(0), "audit-eu-1")
    names = {"spark": spark, "path": str(tmp_path / "logs"), "target": str(tmp_path / "out")}
    try:
        for code in examples("python"):
            exec(compile(code, "spark.md", "exec"), names)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert len(examples("python")) == 9
    assert "|  orders|        0|    5|" in capsys.readouterr().out
    assert spark.read.parquet(str(tmp_path / "out" / "records")).count() == 6


def test_the_header_of_a_schema_registry_is_taken_off(spark: SparkSession) -> None:
    values = [
        (b"\x00\x00\x00\x01\x02body", 258, b"body"),
        (b"\x00\x7f\xff\xff\xff", 2**31 - 1, b""),
        (b"\x00\x00\x00\x01", None, b"\x00\x00\x00\x01"),
        (b"\x01\x00\x00\x01\x02body", None, b"\x01\x00\x00\x01\x02body"),
        (b"", None, b""),
        (None, None, None),
    ]
    frame = spark.createDataFrame([(value,) for value, _, _ in values], "value binary")
    names: dict[str, Any] = {"records": frame}
    (code,) = (code for code in examples("python") if "schema_id" in code)
    exec(compile(code, "spark.md", "exec"), names)
    rows = frame.select(names["schema_id"].alias("id"), names["payload"].alias("rest")).collect()
    found = [(row.id, None if row.rest is None else bytes(row.rest)) for row in rows]
    assert found == [(identity, rest) for _, identity, rest in values]


@pytest.mark.others
@pytest.mark.more
@pytest.mark.timeout(900)
def test_the_examples_run_in_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    """And no other Python of this machine has what they need."""
    partition(tmp_path / "logs", batch(0, 1, 2) + batch(3, 4), "orders-0")
    partition(tmp_path / "logs", batch(0), "audit-eu-1")
    venv.create(tmp_path / "venv", symlinks=True)
    packages = Path(pyspark.__file__).parents[1]
    (installed,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (installed / "all.pth").write_text(f"{packages}\n{ROOT}\n")  # as an editable install does it
    script = tmp_path / "guide.py"
    names = f"path, target = {str(tmp_path / 'logs')!r}, {str(tmp_path / 'out')!r}\n"
    script.write_text(names + "".join(examples("python")))
    java = shutil.which("java")
    paths = ["/usr/bin", "/bin", *([str(Path(java).parent)] if java else [])]
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME") if name in os.environ}
    ran = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", script],
        cwd=tmp_path,
        env=kept | {"PATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "|  orders|        0|    5|" in ran.stdout


def test_the_statements_in_sql_run(spark: SparkSession, tmp_path: Path) -> None:
    partition(tmp_path, batch(0, 1, 2), "orders-0")
    (text,) = examples("sql")
    try:
        for statement in text.replace("/var/kafka", str(tmp_path)).split(";"):
            if statement.strip():
                frame = spark.sql(statement)
        assert frame.collect()[0][0] == 3
    finally:
        spark.sql("DROP TABLE IF EXISTS orders")


def commands() -> list[list[str]]:
    """The commands in the blocks of the shell, in their order."""
    lines = "".join(examples("sh")).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if not line.startswith("spark-submit")]


def broker(directory: Path) -> None:
    """A log directory that has all that the commands name."""
    directory.mkdir(parents=True)
    for name in ("orders-0", "orders-eu-0", "customers-0"):
        segment(directory / name, 0, batch(0, 1), batch(2, magic=1))
    partitions = "orders 0 3\norders-eu 0 3\ncustomers 0 3\n__consumer_offsets 0 2\n"
    (directory / HIGH_WATERMARKS).write_text(f"0\n4\n{partitions}")


@pytest.mark.others
@pytest.mark.timeout(900)
def test_the_commands_run(
    spark: SparkSession,
    store: tuple[ObjectStore, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert spark is SparkSession.getActiveSession()
    if "SPARK_REMOTE" not in os.environ:
        for name, value in store[0].environment.items():  # the workers have that of the JVM else
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
    monkeypatch.chdir(tmp_path)
    for directory in ("var/kafka", "backup/broker-1", "tiered"):
        broker(tmp_path / directory)
    committed = write_key(RecordKey("billing", ("orders", 0))), write_committed(Committed(1))
    kept(tmp_path / "var/kafka/__consumer_offsets-0", committed)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/prod.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}/prod")
    # pyiceberg reads its configuration once, when it is imported: an earlier test may have done so.
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    for bucket in ("backups", "tiered", "archive", "lake"):
        shutil.rmtree(store[1].parent / bucket, ignore_errors=True)  # of an earlier try
        (store[1].parent / bucket).mkdir()
    broker(store[1].parent / "backups" / "kafka" / "broker-1")
    broker(store[1].parent / "tiered" / "prefix")
    command = Command(capsys)
    places = re.compile(r"(^|(?<=//))/(var|backup|mnt|data)/")
    for program, *words in commands():
        assert program == "downconvert"
        if "sweep" in words:  # a grid of eight, of what is measured long enough to mean something
            words += ["--size", str(MiB)]
        ran = command(*(places.sub(rf"{tmp_path}/\2/", word) for word in words))
        assert (ran.code, ran.err) == (0, ""), f"{words}: {ran.err}"
    assert len(commands()) > 8


@pytest.mark.others
@pytest.mark.more
def test_the_archive_for_a_cluster_runs(tmp_path: Path) -> None:
    """The last example: the archive that a line of Python writes, and `spark-submit`."""
    broker(tmp_path / "kafka")
    (line,) = re.findall(r'`package.zip`: `python -c "(from pathlib[^`]*?)"`', WHOLE)
    line = line.replace("\n", " ")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    subprocess.run([sys.executable, "-c", line], cwd=tmp_path, check=True, env=environment)
    submit = next(block for block in examples("sh") if block.startswith("spark-submit"))
    submit = submit.replace("spark://host:7077", "local[1]").replace("/mnt/kafka", "kafka")
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", submit],
        cwd=tmp_path,
        env=environment | {"PATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Kafka 4: 3 topics of 3 still to be rewritten" in ran.stdout


def test_every_option_is_reported() -> None:
    named = set(re.findall(r"`([a-zA-Z]+)`", TEXT.partition("### Options")[2].partition("```")[0]))
    fields = {name.replace("_", "").lower() for name in Options.__dataclass_fields__}
    renamed = {
        "paths": None,
        "committed": "isolation",
        "assigned": "assign",
        "mustfindtimestamp": "startingoffsetsbytimestampstrategy",
        "starting": "startingoffsets",
        "ending": "endingoffsets",
        "corruptcolumn": "columnnameofcorruptrecord",
        "storesettings": "endpoint",
    }
    expected = {renamed.get(name, name) for name in fields} - {None}
    assert expected <= {name.lower() for name in named}


@pytest.mark.usefixtures("spark")
def test_the_tutorial_runs_in_its_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition(tmp_path / "logs", batch(0, 1, 2) + batch(3, 4), "orders-0")
    text = (ROOT / "docs" / "tutorial-spark.md").read_text()
    blocks = re.findall(r"^```python\n((?:.*\n)*?)```$", text, flags=re.MULTILINE)
    code = "".join(blocks)
    here = {"s3://backup/kafka": str(tmp_path / "logs"), "/tmp/orders": str(tmp_path / "out")}
    for there, path in here.items():
        assert there in code
        code = code.replace(there, path)
    exec(compile(code, "tutorial-spark.md", "exec"), {})
    output = capsys.readouterr().out
    assert "|orders|        0|    5|" in output
    assert "5 records\n" in output
