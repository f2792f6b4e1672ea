"""Each test is in one part, and a part that fails makes the run fail."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from . import in_parts

ROOT = Path(__file__).parents[1]


def test_each_file_of_tests_is_in_one_part() -> None:
    found: list[Path] = []
    for name in in_parts.PARTS:
        part, *ignored = in_parts.arguments(name)
        without = [ROOT / option.removeprefix("--ignore=") for option in ignored]
        for path in (ROOT / part).rglob("test_*.py") if (ROOT / part).is_dir() else [ROOT / part]:
            if not any(path.is_relative_to(other) for other in without):
                found.append(path)
    assert sorted(found) == sorted((ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize(("code", "failed"), [(0, 0), (5, 0), (1, 1), (2, 1), (-9, 1)])
def test_a_part_that_fails_makes_the_run_fail(
    code: int, failed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code 5 means that the options leave no test of the part."""

    def run(
        number: int, parts: Sequence[str], options: list[str]
    ) -> "subprocess.CompletedProcess[str]":
        ended = code if parts[number] == "tests/records" else 0
        return subprocess.CompletedProcess(options, ended, f"details\nran with {options}\n")

    monkeypatch.setattr(in_parts, "run", run)
    assert in_parts.main(["--option", "--at-once", "2"]) == failed
    output = capsys.readouterr().out
    assert output.count("ran with ['--option']") == len(in_parts.PARTS)
    assert ("failed: tests/records" in output) == bool(failed)
    assert output.count("details") == failed


def test_only_the_named_parts_run_each_with_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, list[str]] = {}

    def run(
        command: list[str], env: dict[str, str], **_options: object
    ) -> "subprocess.CompletedProcess[str]":
        started[env["TESTS_PART"]] = command[command.index("no:cacheprovider") + 1 :]
        return subprocess.CompletedProcess(command, 0, "1 passed\n")

    monkeypatch.setattr("subprocess.run", run)
    assert in_parts.main(["tests/records", "-m", "slow", "tests/records/codecs"]) == 0
    assert started == {
        "0/2": ["tests/records", "--ignore=tests/records/codecs", "-m", "slow"],
        "1/2": ["tests/records/codecs", "-m", "slow"],
    }


@pytest.mark.parametrize("number", [0, 3, 599])
def test_ports_of_a_part_are_those_of_no_other(number: int) -> None:
    """600 parts have 37 or 38 of the 22,768 ports each. It may be asked for more than that."""
    program = "from tests.ports import free_ports; print(*free_ports(60))"
    environment = os.environ | {"TESTS_PART": f"{number}/600"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    ports = [int(port) for port in ended.stdout.split()]
    first, end = (10_000 + 22_768 * n // 600 for n in (number, number + 1))
    assert {*ports} <= {*range(first, end)}
