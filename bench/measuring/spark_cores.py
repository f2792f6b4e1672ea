"""Pins Spark to cores, and measures its CPU time: the JVM's, and that of the Python workers.

Cores are changed while Spark runs, so that one core and two are compared within seconds, in the
same warm JVM."""

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")  # a second


def pin(cores: set[int]) -> None:
    """Limits this process, its descendants and their later children to these cores.

    It does so twice, because processes may start in the meantime."""
    for _ in range(2):
        for process in (os.getpid(), *below()):
            for thread in _numbers(PROC / str(process) / "task"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, cores)


def cpu_seconds(without: Collection[int] = ()) -> float:
    """The CPU seconds of all descendants of this process, and of the processes that they waited
    for.

    `without`: processes that are not counted."""
    found = 0
    for process in set(below()).difference(without):
        fields = _stat(process)
        found += sum(map(int, fields[11:15])) if fields else 0
    return found / TICKS


def below() -> Iterator[int]:
    """The descendants of this process."""
    process = os.getpid()
    parents = {number: _parent(number) for number in _numbers(PROC)}
    found = {process}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
        yield from new


def _parent(process: int) -> int:
    fields = _stat(process)
    return int(fields[1]) if fields else 0


def _stat(process: int) -> list[str]:
    """The fields from the state on; empty if the process has ended."""
    try:
        stat = (PROC / str(process) / "stat").read_text()
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def _numbers(path: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in path.iterdir() if entry.name.isdigit()]
    except OSError:
        return []
