"""Produce requests that expand to far more than they are, from several clients at once."""

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize(
    ("records", "value_size", "is_bomb", "size_max"),
    [
        (80, 1_000_000, True, 32 * MiB),  # a window each
        (1, 40_000_000, True, 96 * MiB),  # a part of it once
        (5, 2_000_000, False, 64 * MiB),
    ],
)
def test_records_that_expand_take_little_memory_and_bombs_are_refused(
    records: int, value_size: int, is_bomb: bool, size_max: int
) -> None:
    size, is_refused = grown(records, value_size)
    assert is_refused == is_bomb
    assert size <= size_max
