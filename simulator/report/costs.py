"""The cost of lazy conversion compared with eager: CPU, memory, the first byte, the time for all
bytes.

Each is judged only if the rounds repeat well enough. The verdict is information: it does not make a
simulation fail.

The median of the last byte is shown, and not judged. It is later by design: lazy responses share
turns, so they end together, while eager ones end one after another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from records.units import format_seconds, format_size
from simulator.modes import Mode
from simulator.rounds import Rounds

from .figures import SAME_WITHIN, SPREAD_MAX, M, Measured, is_compared, microseconds, share

INCONCLUSIVE: Final = "inconclusive"
LATER: Final = (
    "The median of the last byte is later by design, and not judged: lazy responses share turns "
    "and end together, eager ones leave one after another."
)
_GIGABYTE: Final = 1e9


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure, and the largest wanted ratio of lazy to eager. at_most: None: no goal.

    spread_max: of the rounds, as a share of their median; above it nothing is judged. It is wider
    if the goal is far from the measured ratio."""

    label: str
    value: Callable[[Measured], float]
    text: Callable[[float], str]
    at_most: float | None
    words: str
    spread_max: float = 0.10
    is_of_compressed: bool = False  # a goal only for compressed logs


def _seconds_of_a_gigabyte(run: Measured) -> float:
    return _GIGABYTE / run.bytes_per_second if run.bytes_per_second > 0 else 0.0


# "No later" and "never more" are as exact as two runs of the same code.
GOALS: Final = (
    Goal("CPU a record", lambda run: run.cpu_per_record, microseconds, 1.05, "at most 1.05x"),
    Goal("peak memory", lambda run: run.peak, format_size, SAME_WITHIN, "never more", SPREAD_MAX),
    Goal(
        "first byte, p50",
        lambda run: run.first_byte(50),
        format_seconds,
        0.1,
        "10x earlier",
        SPREAD_MAX,
        is_of_compressed=True,
    ),
    Goal("all bytes, a GB", _seconds_of_a_gigabyte, format_seconds, SAME_WITHIN, "no later"),
    Goal("last byte, p50", lambda run: run.last_byte(50), format_seconds, None, ""),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """One goal, measured. The first texts are as displayed.

    ratio: of the two medians beside it, lazy to eager; None: there was nothing to divide by.
    wanted: empty: no goal. is_met: None: there is no goal, or it is unknown, or the rounds differ
    too much. spread: of the rounds, the larger of both modes."""

    label: str
    lazy: str
    eager: str
    ratio: float | None
    wanted: str
    is_met: bool | None
    spread: float
    spread_max: float

    def to_json(self) -> dict[str, str | float | bool | None]:
        return {
            "figure": self.label,
            "ratio": self.ratio,
            "wanted": self.wanted,
            "is_met": self.is_met,
            "spread": self.spread,
            "spread_max": self.spread_max,
        }

    @property
    def is_busy(self) -> bool:
        """Whether the rounds differ too much for a verdict on a goal."""
        return bool(self.wanted) and self.spread > self.spread_max

    @property
    def ratio_text(self) -> str:
        return "" if self.ratio is None else f"{self.ratio:.2f}x"

    @property
    def is_met_text(self) -> str:
        if self.is_busy:
            return INCONCLUSIVE
        return {True: "met", False: "missed", None: ""}[self.is_met]


def costs(modes: Mapping[Mode, Rounds[M]], *, is_compressed: bool) -> list[Cost]:
    """The costs for all goals; none unless both modes were run."""
    if not is_compared(modes):
        return []
    lazy, eager = modes["lazy"], modes["eager"]
    found = []
    for goal in GOALS:
        is_wanted = goal.at_most is not None and (is_compressed or not goal.is_of_compressed)
        ours, theirs = lazy.middle(goal.value), eager.middle(goal.value)
        ratio = ours / theirs if theirs > 0 else None
        spread = max(lazy.spread(goal.value), eager.spread(goal.value))
        is_known = is_wanted and ratio is not None and spread <= goal.spread_max
        found.append(
            Cost(
                goal.label,
                goal.text(ours),
                goal.text(theirs),
                ratio,
                goal.words if is_wanted else "",
                (ratio or 0.0) <= (goal.at_most or 0.0) if is_known else None,
                spread,
                goal.spread_max,
            )
        )
    return found


def verdict(found: Sequence[Cost], rounds: int) -> tuple[str, bool | None]:
    """One sentence, and whether all goals are met; None: unknown."""
    if rounds == 1:
        return f"{INCONCLUSIVE}: one round does not show how well figures repeat", None
    busy = [cost for cost in found if cost.is_busy]
    if busy:
        words = ", ".join(f"{cost.label}: rounds differ by {share(cost.spread)}" for cost in busy)
        return f"{INCONCLUSIVE}: the machine was busy ({words})", None
    missed = [cost for cost in found if cost.is_met is False]
    unknown = [cost.label for cost in found if cost.wanted and cost.is_met is None]
    if missed:
        words = ", ".join(
            f"{cost.label} {cost.ratio_text} (wanted: {cost.wanted})" for cost in missed
        )
        return f"lazy beside eager misses {words}", False
    if unknown:
        return f"not known of lazy beside eager: {', '.join(unknown)}", None
    return "lazy costs no more than eager, by " + _judged(found), True


def _judged(found: Sequence[Cost]) -> str:
    return ", ".join(f"{cost.label} {cost.ratio_text}" for cost in found if cost.wanted)
