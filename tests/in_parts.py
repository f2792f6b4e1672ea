"""Runs the tests in several processes: `python -m tests.in_parts -m "not slow"`.

A part is a file, or a folder without the parts inside it. Each process collects and runs one part.
Arguments that name folders or tests of `tests/` are parts themselves, instead of those below.
`--at-once 2` runs two parts at a time. All other arguments are pytest's.

When a part has ended, its summary is printed, and its output if something failed."""

import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

import pytest

AT_ONCE: Final = 4  # more than there may be cores: tests wait for sockets and children, too
ROOT: Final = Path(__file__).parents[1]

# Longest first, so that none runs alone in the end. Tests of the gateway's network wait for
# time-outs, for minutes, and leave the processor to the others. Old clients and Spark's jobs take
# minutes where programs of others are tested, and seconds elsewhere.
PARTS: Final = (
    "tests/downconvert/gateway/network",
    "tests/downconvert/spark",
    "tests/clients",
    "tests/downconvert/spark/jobs",
    "tests/downconvert/broker",
    "tests/downconvert/gateway",
    "tests/downconvert/cli",
    "tests/records",
    "tests/downconvert/storage",
    "tests/downconvert/spark/stream",
    "tests/downconvert/conversion",
    "tests/simulator",
    "tests/downconvert/spark/test_bench_trees.py",
    "tests/downconvert",
    "tests",
    "tests/bench",
)


def arguments(part: str, parts: Sequence[str] = PARTS) -> list[str]:
    """pytest's arguments for a part without the other parts inside it."""
    inside = [other for other in parts if other.startswith(f"{part}/")]
    return [part, *(f"--ignore={other}" for other in inside)]


def run(
    number: int, parts: Sequence[str], options: list[str]
) -> "subprocess.CompletedProcess[str]":
    """Runs one of the parts. The environment tells it which, so that its ports are its own."""
    print(f"   {parts[number]}: begun\n", end="", flush=True)  # by one write: parts begin together
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *arguments(parts[number], parts), *options],
        cwd=ROOT,
        env=os.environ | {"TESTS_PART": f"{number}/{len(parts)}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main(words: list[str]) -> int:
    """The number of parts in which something failed."""
    parser = ArgumentParser(prog="python -m tests.in_parts", allow_abbrev=False, add_help=False)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    own, others = parser.parse_known_args(words)
    parts = [word for word in others if word.startswith("tests")] or PARTS
    options = [word for word in others if word not in parts]
    failed = []
    with ThreadPoolExecutor(own.at_once) as pool:
        runs = {pool.submit(run, n, parts, options): part for n, part in enumerate(parts)}
        for done in as_completed(runs):
            part, ended = runs[done], done.result()
            if ended.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                print(f"== {part}: {ended.stdout.rstrip().splitlines()[-1]}", flush=True)
            else:
                print(f"== {part}: failed\n{ended.stdout}", flush=True)
                failed.append(part)
    print(f"failed: {', '.join(sorted(failed))}" if failed else "all parts passed")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
