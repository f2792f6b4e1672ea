"""What lazy costs beside eager: against what is wanted, and how well it repeats."""

from dataclasses import dataclass

import pytest

from simulator.modes import Mode
from simulator.report.costs import Cost, costs, repeatability, verdict
from simulator.rounds import Rounds


@dataclass
class Round:
    peak: int = 1000
    cpu_per_record: float = 1e-6
    first: float = 0.1
    last: float = 0.1
    last_byte_mean: float = 0.1
    bytes_per_second: float = 1.0
    records_per_second: float = 1.0

    def first_byte(self, percent: float) -> float:
        return self.first if percent == 50 else 0.0

    def last_byte(self, percent: float) -> float:
        return self.last if percent == 50 else 0.0


def by_label(lazy: list[Round], eager: list[Round], *, is_compressed: bool) -> dict[str, Cost]:
    modes: dict[Mode, Rounds[Round]] = {"lazy": Rounds(lazy), "eager": Rounds(eager)}
    return {cost.label: cost for cost in costs(modes, is_compressed=is_compressed)}


def test_all_that_is_wanted_is_met() -> None:
    found = by_label([Round(first=0.009, cpu_per_record=1.05e-6)], [Round()], is_compressed=True)
    assert [cost.is_met for cost in found.values()] == [True] * 5
    assert verdict([*found.values()]) == ("lazy beside eager is all that is wanted", True)


@pytest.mark.parametrize(
    ("label", "lazy", "words"),
    [
        ("CPU a record", Round(cpu_per_record=1.06e-6), "1.06x (wanted: at most 1.05x)"),
        ("last byte, mean", Round(last_byte_mean=0.2), "2.00x (wanted: no later)"),
        ("last byte, p50", Round(last=0.2), "2.00x (wanted: no later)"),
        ("first byte, p50", Round(first=0.02), "0.20x (wanted: 10x earlier)"),
        ("peak memory", Round(peak=5000), "5.00x (wanted: never more)"),
    ],
)
def test_what_is_missed_is_said(label: str, lazy: Round, words: str) -> None:
    eager = Round()
    if label != "first byte, p50":
        lazy.first = 0.001
    found = by_label([lazy], [eager], is_compressed=True)
    assert [name for name, cost in found.items() if cost.is_met is False] == [label]
    text, is_met = verdict([*found.values()])
    assert (text, is_met) == (f"lazy beside eager misses {label} {words}", False)


def test_an_early_first_byte_is_wanted_of_compressed_answers_only() -> None:
    found = by_label([Round()], [Round()], is_compressed=False)
    cost = found["first byte, p50"]
    assert (cost.ratio, cost.wanted, cost.is_met) == (1.0, "", None)
    assert verdict([*found.values()])[1]


def test_what_could_not_be_measured_is_not_met() -> None:
    found = by_label([Round(peak=0)], [Round(peak=0)], is_compressed=False)
    assert found["peak memory"].ratio is None
    assert verdict([*found.values()]) == ("not known of lazy beside eager: peak memory", False)


def test_without_both_modes_nothing_is_compared() -> None:
    assert costs({"lazy": Rounds([Round()])}, is_compressed=True) == []


def test_rounds_that_differ_by_more_than_a_tenth_are_told_of() -> None:
    quiet = [Round(last=0.10), Round(last=0.105), Round(last=0.101)]
    busy = [Round(last=0.10), Round(last=0.15), Round(last=0.10)]
    words, is_quiet = repeatability([*by_label(quiet, quiet, is_compressed=True).values()], 3)
    assert (words, is_quiet) == ("3 rounds differ by up to 5 % (last byte, p50)", True)
    words, is_quiet = repeatability([*by_label(busy, quiet, is_compressed=True).values()], 3)
    assert "differ by up to 50 % (last byte, p50), more than 10 %" in words
    assert not is_quiet
    assert not repeatability([*by_label(quiet, quiet, is_compressed=True).values()], 1)[1]
