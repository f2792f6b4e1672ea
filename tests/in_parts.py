"""Runs the tests in several processes: `python -m tests.in_parts -m "not slow"`.

A part is a folder, and the last parts are all other tests. Each process collects its own part only.
Each worker of pytest-xdist collects all tests, and sends each report to another process. This took
a third of the CPU time of short tests.

The other arguments are pytest's. When a part has ended, its summary is printed, and its output if
something failed."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

import pytest

AT_ONCE: Final = 4  # more than there may be cores: tests wait for sockets and children, too
ROOT: Final = Path(__file__).parents[1]

# The longest part is first, so that no process is alone with it in the end.
FOLDERS: Final = (
    "tests/downconvert/spark",
    "tests/downconvert/gateway",
    "tests/downconvert/cli",
    "tests/downconvert/conversion",
    "tests/downconvert/broker",
    "tests/downconvert/storage",
    "tests/records",
    "tests/simulator",
    "tests/downconvert",
    "tests",
)


def part(folder: str) -> list[str]:
    """pytest's arguments for a folder without the other parts in it."""
    inside = [other for other in FOLDERS if other.startswith(f"{folder}/")]
    return [folder, *(f"--ignore={other}" for other in inside)]


def run(folder: str, options: list[str]) -> "subprocess.CompletedProcess[str]":
    print(f"   {folder}: begun", flush=True)
    arguments = [*part(folder), *options]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def main(options: list[str]) -> int:
    """The number of parts in which something failed."""
    failed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {pool.submit(run, folder, options): folder for folder in FOLDERS}
        for done in as_completed(runs):
            folder, ended = runs[done], done.result()
            if ended.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                print(f"== {folder}: {ended.stdout.rstrip().splitlines()[-1]}", flush=True)
            else:
                print(f"== {folder}: failed\n{ended.stdout}", flush=True)
                failed.append(folder)
    print(f"failed: {', '.join(sorted(failed))}" if failed else "all parts passed")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
