"""The comparison with Kafka's converter, at a small size and without Kafka."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.conversion import main

ROOT = Path(__file__).parents[2]


def run(*arguments, **environment):
    return subprocess.run(
        (sys.executable, "-m", "bench.conversion", *arguments),
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.more
# One of plain batches and one of every codec; `make bench-smoke` converts all shapes.
@pytest.mark.parametrize("shape", ["none-100", "mixed"])
def test_a_shape_is_converted_rightly_and_timed(shape, tmp_path):
    found = tmp_path / "found.json"
    arguments = ("--smoke", "--no-kafka", "--reference", "--segments", str(tmp_path))
    done = CliRunner().invoke(main, (*arguments, "--shape", shape, "--json", str(found)))
    assert done.exit_code == 0, done.output
    (result,) = json.loads(found.read_text())
    assert result["shape"] == shape
    for case in result["cases"]:
        assert len(case["estimate"]) == len(case["exact"]) == 2
        assert case["exact"][0]["records"] == case["checked"]["records"]
        assert f"{case['checked']['crc']:08x}" in done.output


def test_the_reference_is_not_timed_unless_it_is_asked_for():
    done = run("--smoke", "--no-kafka", LAZY_DOWNCONVERT_BACKEND="reference")
    assert done.returncode == 2
    assert "--reference" in done.stderr


@pytest.mark.more
def test_missing_java_is_reported_and_the_rest_is_measured(tmp_path):
    arguments = ("--smoke", "--reference", "--shape", "none-100", "--segments", str(tmp_path))
    done = run(*arguments, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Without Kafka's own classes: there is no java" in done.stderr


@pytest.mark.parametrize("size", ["", "16 KiB", "-1", "16kb", "many"])
def test_invalid_sizes_are_refused(size):
    done = CliRunner().invoke(main, ("--chunk", size, "--reference", "--no-kafka"))
    assert done.exit_code == 2
    assert "is not a size such as 16KiB" in done.output
