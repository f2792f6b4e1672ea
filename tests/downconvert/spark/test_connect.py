"""The jobs over Spark Connect, which has DataFrames and nothing else: their own tests once more,
with a server in another process. And what is said where there is no such server."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from records import backend
from tests import connect_server
from tests.connect_server import ROOT
from tests.downconvert.cli.running import one_line, start, without_notice
from tests.downconvert.storage.logs import batch, segment

pytestmark = pytest.mark.others

HERE: Final = "tests/downconvert/spark"
# Tests of each job's and the data source's use of a session, and of errors of failed tasks.
TESTS: Final = (
    "jobs/audit/test_audit.py::test_a_gap_between_segments_is_found",
    "test_commands.py::test_a_conversion_is_done_once",
    "test_commands.py::test_a_failing_task_is_one_line_that_says_what_and_where",
    "test_commands.py::test_keys_are_found_and_the_last_of_each_is_written",
    "test_commands.py::test_a_warning_of_a_job_is_a_line",
    "test_documents.py::test_the_examples_run",
    "jobs/export/test_export.py::test_a_run_that_died_between_its_files_and_its_note_is_made_up_for",
    "jobs/export/test_export.py::test_records_are_in_folders_by_topic_and_date_and_twice_is_once",
    "test_source.py::test_damage_is_a_row_or_the_end",
    "test_source.py::test_the_catalog_may_have_a_table_of_the_source",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server.running(tmp_path_factory.mktemp("connect")) as found:
        yield found


@pytest.mark.more
@pytest.mark.timeout(900)
def test_the_jobs_do_the_same_over_connect(url: str) -> None:
    options = ("-q", "-x", "-p", "no:cacheprovider")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"{HERE}/{name}" for name in TESTS)],
        cwd=ROOT,
        env=os.environ | {"SPARK_REMOTE": url, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.timeout(900)
def test_a_command_runs_on_a_server(url: str, tmp_path: Path) -> None:
    segment(tmp_path / "logs-0", 0, batch(0, 1, 2))
    process = start("spark", "audit", tmp_path, "--json", "--remote", url)
    out, err = process.communicate(timeout=800)
    assert (process.returncode, without_notice(err)) == (0, "")
    assert json.loads(out)["topics"][0]["records"] == 3


@pytest.mark.more
@pytest.mark.timeout(900)
def test_a_server_without_this_package_gets_it_as_an_artifact(tmp_path: Path) -> None:
    """If the tests' Python has the package, too, the sent one comes first."""
    segment(tmp_path / "logs-0", 0, batch(0, 1, 2))
    archive = tmp_path / "lazy-downconvert.zip"
    (tmp_path / "server").mkdir()
    with connect_server.running(tmp_path / "server", {"PYTHONPATH": ""}) as server:
        module = "tests.downconvert.spark.artifact_client"
        ran = subprocess.run(
            [sys.executable, "-m", module, server, str(tmp_path), str(archive)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    kernel, file, offsets, counts = json.loads(ran.stdout)
    assert kernel == backend.NAME
    assert f"{archive.name}/records" in file
    assert (offsets, counts) == ([0, 1, 2], [3])


def test_a_server_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    """It is waited for; as a `--master` once, which is a `--remote` then, as above."""
    with socket.socket() as free:  # bound, and nobody listens
        free.bind(("127.0.0.1", 0))
        url = f"sc://127.0.0.1:{free.getsockname()[1]}"
        process = start("spark", "audit", tmp_path, "--master", f"{url}/;token=secret")
        out, err = process.communicate(timeout=280)
    assert (process.returncode, out) == (2, "")
    words = one_line(without_notice(err))
    assert words.startswith(f"downconvert: no Spark Connect server answers at {url} (")
    assert "secret" not in words


def test_an_invalid_server_is_reported_in_one_line(tmp_path: Path) -> None:
    process = start("spark", "audit", tmp_path, "--remote", "moon")
    out, err = process.communicate(timeout=280)
    assert (process.returncode, out) == (2, "")
    assert "'moon' is not a Spark Connect server: name one as sc://" in one_line(
        without_notice(err)
    )
