"""Produce requests that expand to far more than they are, from several clients at once."""

import subprocess
import sys

from records.units import MiB

THREADS = 4  # as many as the gateway converts in


def grown(records: int, value_size: int) -> tuple[int, bool]:
    """Bytes by which a process grows, and whether all of it was refused."""
    command = [sys.executable, "-m", "tests.downconvert.gateway.bombs"]
    words = map(str, (THREADS, records, value_size))
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=True, timeout=280
    )
    size, is_refused, _ = done.stdout.split()
    return int(size), is_refused == "True"


def test_records_that_expand_to_80_mb_take_a_window_each() -> None:
    size, is_refused = grown(80, 1_000_000)
    assert is_refused
    assert size <= 32 * MiB


def test_a_record_of_40_mb_takes_a_part_of_it_once() -> None:
    size, is_refused = grown(1, 40_000_000)
    assert is_refused
    assert size <= 96 * MiB


def test_records_that_expand_and_are_no_bomb_are_taken() -> None:
    size, is_refused = grown(5, 2_000_000)
    assert not is_refused
    assert size <= 64 * MiB
