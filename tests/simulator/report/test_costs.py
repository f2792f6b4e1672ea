"""The cost of lazy conversion compared with eager: goals, and inconclusive results."""

from dataclasses import dataclass

import pytest
from rich.console import Console

from records.units import KiB
from simulator.modes import Mode
from simulator.report.costs import FIRST, LATER, Cost, costs, is_made_at_once, verdict
from simulator.report.page import conclusion, costs_section
from simulator.report.table import costs_table
from simulator.rounds import Rounds


@dataclass
class Round:
    peak: int = 1000
    cpu_per_record: float = 1e-6
    first: float = 0.1
    last: float = 0.1
    bytes_per_second: float = 1e9
    records_per_second: float = 1.0

    def first_byte(self, percent: float) -> float:
        return self.first if percent == 50 else 0.0

    def last_byte(self, percent: float) -> float:
        return self.last if percent == 50 else 0.0


def by_label(lazy: list[Round], eager: list[Round], *, are_large: bool = True) -> dict[str, Cost]:
    modes: dict[Mode, Rounds[Round]] = {"lazy": Rounds(lazy), "eager": Rounds(eager)}
    return {cost.label: cost for cost in costs(modes, are_large=are_large)}


def judged(found: dict[str, Cost], rounds: int = 3) -> tuple[str, bool | None]:
    return verdict([*found.values()], rounds)


def test_all_goals_are_met() -> None:
    found = by_label([Round(first=0.009, cpu_per_record=1.05e-6)] * 3, [Round()] * 3)
    assert [cost.is_met for cost in found.values()] == [True] * 4 + [None]
    words, is_met = judged(found)
    assert is_met
    assert words.startswith("lazy costs no more than eager, by CPU per record 1.05x, peak memory")


@pytest.mark.parametrize(
    ("label", "lazy", "words"),
    [
        ("CPU per record", Round(cpu_per_record=1.06e-6), "1.06x (wanted: at most 1.05x)"),
        ("time per GB", Round(bytes_per_second=5e8), "2.00x (wanted: no later)"),
        ("first byte, p50", Round(first=0.2), "2.00x (wanted: no later)"),
        ("peak memory", Round(peak=5000), "5.00x (wanted: never more)"),
    ],
)
def test_missed_goals_are_named(label: str, lazy: Round, words: str) -> None:
    eager = Round()
    if label != "first byte, p50":
        lazy.first = 0.001
    found = by_label([lazy] * 3, [eager] * 3)
    assert [name for name, cost in found.items() if cost.is_met is False] == [label]
    assert judged(found) == (f"lazy beside eager misses {label} {words}", False)


def test_the_median_of_the_last_byte_is_shown_and_not_judged() -> None:
    found = by_label([Round(first=0.001, last=0.2)] * 3, [Round()] * 3)
    cost = found["last byte, p50"]
    assert (cost.ratio_text, cost.wanted, cost.is_met) == ("2.00x", "", None)
    assert judged(found)[1]


def test_a_ratio_is_that_of_the_two_figures_beside_it() -> None:
    lazy = [Round(last=one) for one in (0.1, 0.305, 0.5)]
    eager = [Round(last=one) for one in (0.9, 0.405, 0.2)]
    cost = by_label(lazy, eager)["last byte, p50"]
    assert (cost.lazy, cost.eager, cost.ratio_text) == ("305 ms", "405 ms", "0.75x")


def test_small_responses_have_no_goal_for_memory_and_the_first_byte() -> None:
    """Lazy conversion makes them as a whole, as eager does."""
    found = by_label([Round(first=0.2, peak=2000)] * 3, [Round()] * 3, are_large=False)
    for label in ("peak memory", "first byte, p50"):
        assert (found[label].ratio, found[label].wanted, found[label].is_met) == (2.0, "", None)
    assert judged(found)[1]


@pytest.mark.parametrize(
    ("size", "is_compressed", "is_at_once"),
    [
        (64 * KiB, False, True),
        (65 * KiB, False, False),
        (512 * KiB, True, True),
        (513 * KiB, True, False),
    ],
)
def test_small_means_made_before_the_first_byte(
    size: int, is_compressed: bool, is_at_once: bool
) -> None:
    assert is_made_at_once(size, is_compressed=is_compressed) == is_at_once


@pytest.mark.parametrize(
    ("lazy", "words"),
    [
        ((0.02, 0.03, 0.034), "met"),  # they differ by 47 %, which is not enough to miss it
        ((0.02, 0.03, 0.04), "inconclusive"),  # 67 %
        ((0.08, 0.1, 0.11), "inconclusive"),
        ((0.2, 0.3, 0.3), "missed"),
    ],
)
def test_a_far_goal_is_judged_although_rounds_differ(lazy: tuple[float, ...], words: str) -> None:
    found = by_label([Round(first=one) for one in lazy], [Round()] * 3)
    assert found["first byte, p50"].is_met_text == words


def test_an_unmeasured_goal_is_not_met() -> None:
    found = by_label([Round(peak=0)] * 3, [Round(peak=0)] * 3)
    assert found["peak memory"].ratio is None
    assert judged(found) == ("not known of lazy beside eager: peak memory", None)


def test_without_both_modes_nothing_is_compared() -> None:
    assert costs({"lazy": Rounds([Round()])}, are_large=True) == []


def test_rounds_that_differ_too_much_are_inconclusive_and_have_no_colour() -> None:
    busy = [Round(cpu_per_record=one, first=0.001) for one in (1e-6, 1.5e-6, 1e-6)]
    found = by_label(busy, [Round()] * 3)
    cost = found["CPU per record"]
    assert (cost.is_met, cost.is_met_text) == (None, "inconclusive")
    words, is_met = judged(found)
    assert words == "inconclusive: the machine was busy (CPU per record: rounds differ by 50 %)"
    assert is_met is None
    console = Console(force_terminal=True, color_system="truecolor", width=120, record=True)
    with console.capture():
        console.print(costs_table([cost], 3))
    assert "#" not in console.export_html(inline_styles=True, code_format="{code}").replace(
        "&#", ""
    )
    page = "".join(costs_section([cost], 3))
    assert "inconclusive: the machine was busy" in page
    assert 'class="good"' not in page
    assert 'class="bad"' not in page


def test_one_round_is_no_verdict() -> None:
    found = by_label([Round(first=0.001)], [Round()])
    words, is_met = judged(found, rounds=1)
    assert (words.startswith("inconclusive: one round"), is_met) == (True, None)
    page = "".join(costs_section([*found.values()], 1))
    assert "met" not in page.replace("method", "")
    assert f"{FIRST} {LATER}" in page


def test_a_conclusion_counts_only_the_results_that_there_are() -> None:
    good = [*by_label([Round(first=0.009)] * 3, [Round()] * 3).values()]
    bad = [*by_label([Round(peak=5000)] * 3, [Round()] * 3).values()]
    busy = [*by_label([Round(peak=n) for n in (1000, 1000, 1600)], [Round()] * 3).values()]
    words, is_good = conclusion([("a", good), ("b", busy), ("c", good)], 3)
    assert words == (
        "Of 3 workloads, lazy conversion costs no more than eager in 2 and is not judged, because "
        "rounds differ too much, in 1."
    )
    assert is_good is None
    words, is_good = conclusion([("a", good), ("b", bad)], 3)
    assert words == (
        "Of 2 workloads, lazy conversion costs no more than eager in 1 and misses a goal in 1."
    )
    words, is_good = conclusion([("a", bad), ("b", bad[:2]), ("c", good), ("d", busy)], 3)
    assert ", misses a goal in 2 and is not judged" in words
