"""The jobs as commands: what they print, and how they end. In the session that the tests share."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from downconvert.internal_topics.group_records import (
    Committed,
    RecordKey,
    StoredGroup,
    StoredMember,
    write_committed,
    write_group,
    write_key,
)
from downconvert.internal_topics.transaction import Transaction
from downconvert.internal_topics.transaction_records import write_key as write_id
from downconvert.internal_topics.transaction_records import write_value
from downconvert.storage.names import HIGH_WATERMARKS
from tests.downconvert.cli.running import ROOT, Command, one_line
from tests.downconvert.storage.logs import batch, segment

from .reading import kept


@pytest.fixture
def command(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Command:
    assert spark is SparkSession.getActiveSession()
    return Command(capsys)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    segment(path / "old-0", 0, batch(0, magic=1), batch(1, magic=1))
    segment(path / "new-0", 0, batch(0, 1, 2))
    return path


def test_an_audit_gives_advice(source: Path, tmp_path: Path, command: Command) -> None:
    ran = command("spark", "audit", source, "--report", tmp_path / "audit.html")
    assert (ran.code, ran.err) == (0, "")
    assert "Kafka 4: 1 topic of 2 still to be rewritten" in ran.out
    assert "Not ready for Kafka 4: 1 of 2 topics holds" in (tmp_path / "audit.html").read_text()
    found = json.loads(command("spark", "audit", source, "--topics", "n*", "--json").out)
    (topic,) = found["topics"]
    assert (topic["name"], topic["records"], topic["ready_for_kafka_4"]) == ("new", 3, True)


def test_damage_is_a_line_and_exit_code_2(source: Path, command: Command) -> None:
    segment(source / "old-0", 0, batch(0, magic=1)[:-1] + b"?")
    ran = command("spark", "audit", source)
    assert ran.code == 2
    assert "checksum does not match" in one_line(ran.err)


def test_gaps_are_rows_and_columns_and_exit_code_2(source: Path, command: Command) -> None:
    ran = command("spark", "gaps", source)
    assert ran.code == 0
    assert ran.out.startswith("no gaps: ")
    segment(source / "new-0", 10, batch(10))
    ran = command("spark", "gaps", source, "--json")
    assert ran.code == 2
    row = json.loads(ran.out)
    assert "ends at 3, and the next segment begins at 10" in row.pop("why")
    expected = {"topic": "new", "partition": 0, "from": 3, "to": 10, "state": "missing"}
    assert row == expected
    assert "missing" in command("spark", "gaps", source, "--topics", "new").out
    assert command("spark", "gaps", source, "--compacted", "n*").code == 0
    ran = command("spark", "audit", source, "--json")
    assert (ran.code, one_line(ran.err)) == (
        2,
        "downconvert: 7 offsets in no copy; downconvert spark gaps says which",
    )
    found = {topic["name"]: topic["absent_offsets"] for topic in json.loads(ran.out)["topics"]}
    assert found == {"new": 7, "old": 0}


def test_a_conversion_is_done_once(source: Path, tmp_path: Path, command: Command) -> None:
    first = command("spark", "convert", source, tmp_path / "out", "--to-magic", 2)
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith("2 segments converted: ")
    again = command("spark", "convert", source, tmp_path / "out", "--to-magic", 2, "--json")
    found = json.loads(again.out)
    assert (found["converted"], found["kept"], found["failed"]) == (0, 2, 0)
    other = command("spark", "convert", source, tmp_path / "out", "--to-magic", 1)
    assert other.code == 2
    assert "name another directory" in one_line(other.err)


def test_an_absent_path_is_named(tmp_path: Path, command: Command) -> None:
    ran = command("spark", "audit", tmp_path / "nowhere")
    assert ran.code == 2
    assert f"{tmp_path}/nowhere is not a directory" in one_line(ran.err)
    ran = command("spark", "audit", tmp_path)
    assert "name a broker's log directory" in one_line(ran.err)


def test_two_clusters_are_refused(source: Path, tmp_path: Path, command: Command) -> None:
    other = tmp_path / "other"
    other.mkdir()
    segment(other / "new-0", 0, batch(0))
    for path, cluster in ((source, "one"), (other, "two")):
        (path / "meta.properties").write_text(f"version=0\ncluster.id={cluster}\n")
    for job in (["audit", source, other], ["export", source, other, tmp_path / "lake"]):
        ran = command("spark", *job)
        assert ran.code == 2
        assert "name directories of one cluster only" in one_line(ran.err)
    assert not (tmp_path / "lake").exists()


def test_a_warning_of_a_job_is_a_line(source: Path, tmp_path: Path, command: Command) -> None:
    ran = command("spark", "export", source, tmp_path / "lake")
    assert ran.code == 0
    assert "no checkpoint has a high watermark of new-0, old-0" in one_line(ran.err)
    (source / HIGH_WATERMARKS).write_text("0\n2\nnew 0 6\nold 0 2\n")
    ran = command("spark", "export", source, tmp_path / "lake")
    assert (ran.code, ran.err) == (0, "")
    (source / "new-0" / "00000000000000000000.log").unlink()
    segment(source / "new-0", 5, batch(5))
    ran = command("spark", "export", source, tmp_path / "lake")
    assert ran.code == 0
    assert one_line(ran.err).endswith("offsets 3 up to 5 were deleted before they were exported")


def test_an_export_counts_what_it_has_added(source: Path, tmp_path: Path, command: Command) -> None:
    first = command("spark", "export", source, tmp_path / "lake")
    assert first.out.endswith(f"5 records added to 2 folders of {tmp_path / 'lake'}\n")
    segment(source / "new-0", 3, batch(3))
    found = json.loads(command("spark", "export", source, tmp_path / "lake", "--json").out)
    assert [(row["topic"], row["records"]) for row in found["folders"]] == [("new", 1)]
    again = command("spark", "export", source, tmp_path / "lake")
    assert again.out == f"nothing to add: all of it is in {tmp_path / 'lake'}\n"


def test_a_table_is_exported_to(source: Path, tmp_path: Path, command: Command) -> None:
    deltalake = pytest.importorskip("deltalake")
    (source / HIGH_WATERMARKS).write_text("0\n2\nnew 0 3\nold 0 2\n")
    ran = command("spark", "export", "--format", "delta", source, tmp_path / "table")
    assert (ran.code, ran.err) == (0, "")
    assert "5 records added to 2 folders" in ran.out
    assert deltalake.DeltaTable(str(tmp_path / "table")).version() == 1


def test_the_brokers_own_topics_are_printed(tmp_path: Path, command: Command) -> None:
    segment(tmp_path / "new-0", 0, batch(0))
    assert "__consumer_offsets is not there" in one_line(command("spark", "offsets", tmp_path).err)
    member = StoredMember("m-1", None, "c", "/h", 10, 20, b"sub", b"as")
    group = StoredGroup("consumer", 3, "range", "m-1", 1000, (member,))
    kept(
        tmp_path / "__consumer_offsets-0",
        (
            write_key(RecordKey("billing", ("t", 0))),
            write_committed(Committed(42, commit_time=1000)),
        ),
        (write_key(RecordKey("other", ("t", 0))), write_committed(Committed(1))),
        (write_key(RecordKey("billing")), write_group(group)),
    )
    idle = Transaction(transactional_id="pay-1", producer_id=8, epoch=0, timeout_ms=1)
    kept(tmp_path / "__transaction_state-0", (write_id("pay-1"), write_value(idle)))
    ran = command("spark", "offsets", tmp_path, "--group", "billing")
    assert (ran.code, ran.err) == (0, "")
    assert "1970-01-01 00:00:01" in ran.out
    assert "other" not in ran.out
    rows = command("spark", "groups", tmp_path, "--json").out.splitlines()
    assert [json.loads(row)["members"][0]["memberId"] for row in rows] == ["m-1"]
    assert "producer" in command("spark", "transactions", tmp_path).out
    kept(tmp_path / "__transaction_state-1", (b"\0\0\0\7", b""))
    ran = command("spark", "transactions", tmp_path)
    assert ran.code == 2
    assert "the record at offset 0: 7 bytes at 4" in one_line(ran.err)
    assert "pay-1" in command("spark", "transactions", tmp_path, "--skip-damaged").out


def test_a_failing_task_is_one_line_that_says_what_and_where(
    source: Path, tmp_path: Path, command: Command
) -> None:
    log = source / "old-0" / "00000000000000000000.log"
    segment(source / "old-0", 0, batch(0, magic=1)[:-1] + b"?")
    for job in (["find", "--key", "k", source], ["latest", source, tmp_path / "out"]):
        ran = command("spark", *job)
        assert ran.code == 2
        assert f"{log}: checksum does not match" in one_line(ran.err)


def test_keys_are_found_and_the_last_of_each_is_written(
    spark: SparkSession, tmp_path: Path, command: Command
) -> None:
    values = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None), (None, b"5")]
    logs = tmp_path / "logs"
    logs.mkdir()
    kept(logs / "007-0", *values)
    ran = command("spark", "find", "--key", "a", "--json", logs)
    assert ran.code == 0
    assert [json.loads(line)["offset"] for line in ran.out.splitlines()] == [0, 2]
    ran = command("spark", "find", "--key", "a", "--limit", 1, logs)
    assert "1 record found" in ran.out
    assert "there are more than 1" in one_line(ran.err)
    assert command("spark", "latest", logs, tmp_path / "all", "--tombstones").code == 0
    ran = command("spark", "latest", logs, tmp_path / "out", "--json")
    assert json.loads(ran.out) == {"keys": 1}
    (row,) = spark.read.parquet(str(tmp_path / "out")).collect()
    assert (row.key, row.offset, row.value) == (b"a", 2, b"3")
    ran = command("spark", "latest", logs, tmp_path / "out")
    assert ran.code == 2
    assert "already exists" in one_line(ran.err)


@pytest.mark.parametrize(
    ("job", "rest"), [("audit", ()), ("export", ("out",)), ("find", ("--key", "k"))]
)
def test_a_wrong_path_is_said_before_spark_starts(
    tmp_path: Path, job: str, rest: tuple[str, ...]
) -> None:
    (tmp_path / "rsync.log").write_text("no log")
    code = (
        "import sys; from downconvert.cli import main; code = main(); "
        "assert 'pyspark' not in sys.modules; sys.exit(code)"
    )
    for path in ("nowhere", "b*", "rsync.log"):
        ran = subprocess.run(
            [sys.executable, "-c", code, "spark", job, path, *rest],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        assert ran.returncode == 2, ran.stderr
        assert one_line(ran.stderr).startswith(f"downconvert: {path}")
