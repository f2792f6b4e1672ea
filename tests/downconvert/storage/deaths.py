"""Works on a log until it dies, checks the remaining records, and continues with them, repeatedly.

Either the machine dies, and what was not synced is lost, or is not (faults.py). Or the process is
killed by a signal at any moment; then all that it wrote is there, and its history too, in a
journal. Processes are forked from one that has imported what they need.

Not here: the number of runs (bench/crash.py)."""

import os
import pickle
import signal
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, Final

from downconvert.storage import LogDir
from downconvert.storage.disk.faulty_disk import FaultyDisk, Killed

from .history import History
from .workload import PARTITION, Workload

CONTEXT: Final = get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])
JOURNAL: Final = "journal"
STEPS: Final = 200
OPERATIONS_MAX: Final = 600  # of a disk: about what the steps need
SECONDS_MAX: Final = 0.6


def machine_dies(path: Path, seed: int, deaths: int) -> None:
    """AssertionError: something is lost or torn. `path` is an empty directory."""
    random, history = Random(seed), History()
    directory = path / "0"
    directory.mkdir()
    for death in range(1, deaths + 1):
        dies_at = random.randrange(1, OPERATIONS_MAX)
        disk = FaultyDisk(directory, dies_at=dies_at, random=random)
        with suppress(Killed):
            Workload(directory, history, random, files=disk).run(STEPS)
        left = path / str(death)
        left.mkdir()
        disk.survivors(left)
        look(left, history)
        directory = left
    Workload(directory, history, random).run(5)


def process_is_killed(path: Path, seed: int, deaths: int) -> None:
    """As `machine_dies`, for a process that a timer kills."""
    random, history = Random(seed), History()
    directory = path / "log"
    directory.mkdir()
    for _ in range(deaths):
        (path / JOURNAL).write_bytes(pickle.dumps(history))
        arguments = (path, str(random.random()), random.uniform(0, SECONDS_MAX))
        worker = CONTEXT.Process(target=work, args=arguments)
        worker.start()
        worker.join()
        assert worker.exitcode in (0, -signal.SIGALRM), "the worker failed; see above"
        history = read_journal(path / JOURNAL)
        look(directory, history)
    Workload(directory, history, random).run(5)


def look(path: Path, history: History) -> None:
    """Before anything is recovered."""
    with LogDir.open(path) as log_dir:
        if PARTITION in log_dir.logs:
            history.check_as_it_lies(log_dir.logs[PARTITION])
        else:
            assert not history.flushed


def read_journal(path: Path) -> History:
    """The history at first, and every change that was noted since."""
    with path.open("rb") as file:
        history: History = pickle.load(file)
        with suppress(EOFError, pickle.UnpicklingError):  # it may have died as it noted one
            while True:
                change, *arguments = pickle.load(file)
                getattr(history, change)(*arguments)
    return history


def work(path: Path, seed: str, seconds: float) -> None:
    """The work of the process that is killed."""
    history = read_journal(path / JOURNAL)
    journal = os.open(path / JOURNAL, os.O_WRONLY | os.O_APPEND)

    def note(*change: Any) -> None:
        os.write(journal, pickle.dumps(change))

    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))  # nobody handles it: it kills
    Workload(path / "log", history, Random(seed), note=note).run(STEPS)
