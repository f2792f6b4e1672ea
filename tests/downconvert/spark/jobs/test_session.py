"""The session that jobs run in, and what is said where there can be none."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from downconvert.spark.jobs.session import open_session
from tests.downconvert.cli.running import ROOT, one_line, start, without_notice

END_SECONDS = 600  # on a machine that is busy with others


def test_a_session_that_is_there_is_used_and_stays(spark: SparkSession) -> None:
    with open_session("another") as session:
        assert session is spark
    assert spark.range(3).count() == 3


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "downconvert" / "__main__.py", "spark", "audit", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": str(tmp_path)},
    )
    assert ran.returncode == 2
    assert "Spark needs Java 17 or newer: install it" in one_line(without_notice(ran.stderr))


def test_a_master_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as free:  # bound, and nobody listens
        free.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{free.getsockname()[1]}"
        process = start("spark", "audit", tmp_path, "--master", master)
        out, err = process.communicate(timeout=200)
    assert (process.returncode, out) == (2, "")
    words = one_line(without_notice(err))
    assert words.startswith(f"downconvert: no master answers at {master} (")
    assert "refused" in words


def test_an_invalid_master_is_reported_in_one_line(tmp_path: Path) -> None:
    process = start("spark", "audit", tmp_path, "--master", "moon")
    out, err = process.communicate(timeout=280)
    assert (process.returncode, out) == (2, "")
    assert "'moon' is not a master: name one as spark://" in one_line(without_notice(err))


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_while_spark_starts_leaves_no_jvm_behind(tmp_path: Path, times: int) -> None:
    (tmp_path / "t-0").mkdir()
    process = start("spark", "audit", tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not children.read_text():
        assert process.poll() is None
    for _ in range(times):
        time.sleep(0.1)  # a signal that has not been handled yet would swallow the next one
        process.send_signal(signal.SIGINT)
    try:
        # The JVM has inherited standard output, so reading it to its end waits for the JVM.
        out, err = process.communicate(timeout=END_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, without_notice(err)) == (130, "", "")
