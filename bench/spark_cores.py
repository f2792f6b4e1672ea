"""Which cores Spark may use: its JVM, and the Python workers that it starts, from one moment to the
next.

So one and two cores are compared within seconds of each other, in one JVM that is warm.

Not here: what is measured (spark.py)."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def pin(cores: set[int]) -> None:
    """Lets this process and all below it run on these cores alone, and what they start from now on.

    Twice, for what was started meanwhile."""
    for _ in range(2):
        for process in (os.getpid(), *_below(os.getpid())):
            for thread in _numbers(PROC / str(process) / "task"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, cores)


def _below(process: int) -> Iterator[int]:
    parents = {number: _parent(number) for number in _numbers(PROC)}
    found = {process}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
        yield from new


def _parent(process: int) -> int:
    try:
        stat = (PROC / str(process) / "stat").read_text()
    except OSError:  # it has ended
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _numbers(path: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in path.iterdir() if entry.name.isdigit()]
    except OSError:
        return []
