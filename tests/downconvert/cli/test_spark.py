"""`downconvert spark`: its help, and errors before Spark is started.

tests/downconvert/spark has the tests of the jobs on Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from downconvert.cli import spark_job

from .running import ROOT, Command, one_line, start

JOBS = (
    "audit",
    "convert",
    "export",
    "find",
    "gaps",
    "groups",
    "latest",
    "offsets",
    "sweep",
    "transactions",
)


def test_the_group_lists_its_jobs(command: Command) -> None:
    ran = command("spark", "--help")
    assert ran.code == 0
    for name in JOBS:
        assert f"\n  {name} " in ran.out


@pytest.mark.parametrize("name", JOBS)
def test_every_job_has_help_with_an_example(name: str, command: Command) -> None:
    ran = command("spark", name, "--help")
    assert ran.code == 0
    assert f"\n  downconvert spark {name} " in ran.out


@pytest.mark.parametrize("name", sorted({*JOBS} - {"sweep"}))
def test_a_wrong_path_is_reported_before_spark_starts(
    name: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_job, "open_job", None)
    options = {"convert": ["out", "--to-magic=1"], "export": ["out"], "find": ["--key=k"]}
    arguments = ["/nope", *options.get(name, [])]
    if name == "latest":
        arguments = ["/nope", "out"]
    ran = command("spark", name, *arguments)
    assert (ran.code, ran.err) == (2, "downconvert: /nope is not a directory\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit"], "Missing argument 'DIR...'"),
        (["convert", "in", "out"], "Missing option '--to-magic'"),
        (["convert", "in", "out", "--to-magic=3"], "3 is not in the range 0<=x<=2"),
        (["convert", "in", "out", "--to-magic=1", "--policy=odd"], "'odd' is not a policy"),
        (["audit", "in", "--conf", "spark.x"], "'spark.x' is not KEY=VALUE"),
        (["audit", "in", "--report", "no/such/a.html"], "there is no directory no/such"),
        (["find", "in"], "name a key: --key TEXT or --key-hex DIGITS"),
        (["find", "in", "--key-hex", "xyz"], "no hexadecimal digits"),
        (["latest", "out"], "Missing argument 'DIR...'"),
        (["sweep", "out", "--chunks", "lots"], "'lots' is not a size"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, command: Command
) -> None:
    ran = command("spark", *arguments)
    assert ran.code == 2
    assert words in one_line(ran.err)
    assert not ran.out


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_a_missing_extra_is_reported_with_how_to_install_it(missing: str, tmp_path: Path) -> None:
    process = start("spark", "audit", tmp_path, blocked=missing)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (2, "")
    assert "'.[spark]', and Java 17" in one_line(err)


def test_it_can_be_run_by_its_path_as_spark_submit_does(tmp_path: Path) -> None:
    """Modules of its folder must not be taken for Python's."""
    ran = subprocess.run(
        [sys.executable, ROOT / "downconvert" / "__main__.py", "spark", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert "audit" in ran.stdout
    assert not ran.stderr
