"""Each test is in one part, and a part that fails makes the run fail."""

import subprocess
from pathlib import Path

import pytest

from . import in_parts

ROOT = Path(__file__).parents[1]


def test_each_file_of_tests_is_in_one_part() -> None:
    found: list[Path] = []
    for name in in_parts.FOLDERS:
        folder, *ignored = in_parts.part(name)
        without = [ROOT / option.removeprefix("--ignore=") for option in ignored]
        for path in (ROOT / folder).rglob("test_*.py"):
            if not any(path.is_relative_to(other) for other in without):
                found.append(path)
    assert sorted(found) == sorted((ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize(("code", "failed"), [(0, 0), (5, 0), (1, 1), (2, 1), (-9, 1)])
def test_a_part_that_fails_makes_the_run_fail(
    code: int, failed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code 5 means that the options leave no test of the part."""

    def run(folder: str, options: list[str]) -> "subprocess.CompletedProcess[str]":
        ended = code if folder == "tests/records" else 0
        return subprocess.CompletedProcess(options, ended, f"details\nran with {options[-1]}\n")

    monkeypatch.setattr(in_parts, "run", run)
    assert in_parts.main(["--option"]) == failed
    output = capsys.readouterr().out
    assert output.count("ran with --option") == len(in_parts.FOLDERS)
    assert ("failed: tests/records" in output) == bool(failed)
    assert output.count("details") == failed
