"""The jobs as commands: what they print, and how they end. In the session that the tests share."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.downconvert.cli.running import Command, one_line
from tests.downconvert.storage.logs import batch, segment


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


def test_an_audit_says_what_is_to_be_done(source: Path, tmp_path: Path, command: Command) -> None:
    ran = command("spark", "audit", source, "--report", tmp_path / "audit.html")
    assert (ran.code, ran.err) == (0, "")
    assert "Kafka 4: 1 topic of 2 still to be rewritten" in ran.out
    assert "1 topic of 2 still holds" in (tmp_path / "audit.html").read_text()
    found = json.loads(command("spark", "audit", source, "--topics", "n*", "--json").out)
    (topic,) = found["topics"]
    assert (topic["name"], topic["records"], topic["ready_for_kafka_4"]) == ("new", 3, True)


def test_damage_is_a_line_and_exit_code_2(source: Path, command: Command) -> None:
    segment(source / "old-0", 0, batch(0, magic=1)[:-1] + b"?")
    ran = command("spark", "audit", source)
    assert ran.code == 2
    assert "checksum does not match" in one_line(ran.err)


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


def test_what_is_not_there_is_named(tmp_path: Path, command: Command) -> None:
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


def test_what_a_job_warns_of_is_a_line(source: Path, tmp_path: Path, command: Command) -> None:
    ran = command("spark", "export", source, tmp_path / "lake")
    assert (ran.code, ran.err) == (0, "")
    (source / "new-0" / "00000000000000000000.log").unlink()
    segment(source / "new-0", 5, batch(5))
    ran = command("spark", "export", source, tmp_path / "lake")
    assert ran.code == 0
    assert one_line(ran.err).endswith("offsets 3 up to 5 were deleted before they were exported")
