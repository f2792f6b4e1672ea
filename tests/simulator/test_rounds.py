"""Rounds: their summary, and the order of modes."""

import pytest

from simulator.rounds import Rounds, merged, turns


def test_the_median_counts_and_the_spread_is_beside_it() -> None:
    rounds = Rounds([4.0, 1.0, 2.0])
    assert rounds.middle(float) == 2.0
    assert rounds.spread(float) == pytest.approx(1.5)
    assert rounds.typical(float) == 2.0
    assert Rounds([3.0, 1.0]).typical(float) == 1.0
    assert Rounds([0.0, 0.0]).spread(float) == 0.0
    assert Rounds([1, 2, 3]).total(int) == 6


def test_each_round_begins_with_another() -> None:
    modes = ["lazy", "eager", "zero-copy"]
    rounds = [turns(modes, number) for number in range(4)]
    assert [first for first, *_ in rounds] == ["lazy", "eager", "zero-copy", "lazy"]
    assert all(set(one) == set(modes) for one in rounds)
    assert rounds[1] == ["eager", "zero-copy", "lazy"]


def test_the_median_of_an_even_count_is_a_measured_value() -> None:
    assert Rounds([1.0, 4.0]).middle(float) == 1.0
    assert Rounds([1.0, 4.0]).middle(float, higher=True) == 4.0


def test_json_of_several_rounds_is_merged() -> None:
    documents = [{"size": n, "times": {"p50": n / 10}, "name": "x"} for n in (3, 1, 2)]
    assert merged(documents) == {"size": 2, "times": {"p50": 0.2}, "name": "x"}


def test_json_has_the_same_one_of_two_middle_rounds_as_the_tables() -> None:
    """The round with less time has the higher rate."""
    rounds = [
        {"seconds": 1.0, "records_per_second": 10.0, "records_per_cpu_second": 20.0},
        {"seconds": 2.0, "records_per_second": 5.0, "records_per_cpu_second": 10.0},
    ]
    assert merged(rounds) == rounds[0]
