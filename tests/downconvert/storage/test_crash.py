"""After a crash at any moment, flushed records are there, and no record is torn."""

from pathlib import Path
from random import Random

import pytest

from downconvert.storage import DiskFullError
from downconvert.storage.disk.faulty_disk import FaultyDisk

from .deaths import look, machine_dies, process_is_killed
from .history import History
from .workload import Workload


@pytest.mark.parametrize("seed", range(12))
def test_a_log_survives_a_crash_of_the_machine(tmp_path: Path, seed: int) -> None:
    """`machine_dies` compares the log with its history after each death."""
    machine_dies(tmp_path, seed, deaths=3)


@pytest.mark.parametrize("seed", range(3))
def test_a_log_survives_a_killed_process(tmp_path: Path, seed: int) -> None:
    """`process_is_killed` compares the log with its history after each death."""
    process_is_killed(tmp_path, seed, deaths=3)


@pytest.mark.parametrize("seed", range(10))
def test_a_full_disk_is_an_error_and_damages_nothing(tmp_path: Path, seed: int) -> None:
    random, history = Random(seed), History()
    refusals = 0
    for _ in range(3):
        start = random.randrange(300)
        disk = FaultyDisk(tmp_path, full_from=start, full_until=start + 60, random=random)
        workload = Workload(tmp_path, history, random, files=disk)
        try:
            workload.run(100)
        except DiskFullError:  # as it was opened or closed
            refusals += 1
        refusals += workload.refusals
        look(tmp_path, history)
    assert refusals
    Workload(tmp_path, history, random).run(5)
