"""Clocks, memory, and statistics of many measurements."""

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from records.units import MiB
from simulator.measure import Cpu, Memory, Resident, percentile, thinned


def test_memory_grows_by_the_held_bytes_and_keeps_its_peak() -> None:
    memory = Memory()
    held = bytearray(b"\1") * (16 * MiB)
    assert 15 * MiB < memory.peak() < 24 * MiB
    held.clear()
    assert memory.peak() > 15 * MiB


def test_resident_memory_of_another_process_is_seen_and_0_once_it_has_ended() -> None:
    resident = Resident(os.getpid())
    assert MiB < resident() < 10_000 * MiB
    resident.close()
    assert Resident(2**22 + 1)() == 0


def test_cpu_seconds_grow_with_work() -> None:
    cpu = Cpu()
    sum(range(2_000_000))
    assert 0 < cpu.seconds() < 60


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1.0), (50, 50.0), (99, 99.0), (99.5, 100.0), (100, 100.0)]
)
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert percentile([float(number) for number in range(1, 101)], percent) == value


def test_a_percentile_of_nothing_is_0() -> None:
    assert percentile([], 99) == 0


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 2**40)), min_size=1, max_size=200),
    st.integers(1, 50),
)
@example([(1.8425532467862045, 0), (18.145718769178938, 1)], 1)  # rounding leaves the last one out
def test_a_thinned_line_is_short_in_order_and_keeps_its_peak(
    line: list[tuple[float, int]], buckets: int
) -> None:
    line.sort()
    thin = thinned(line, buckets)
    assert len(thin) <= buckets or thin == line
    assert [seconds for seconds, _ in thin] == sorted(seconds for seconds, _ in thin)
    assert max(size for _, size in thin) == max(size for _, size in line)


def test_a_thinned_line_has_no_point_for_a_time_without_any() -> None:
    line = [(0.0, 1), (1.0, 5), (2.0, 2), (9.0, 4), (10.0, 3)]
    assert thinned(line, 3) == [(1.0, 5), (9.0, 4)]
