"""What lazy conversion costs compared with eager, and what is wanted: lazy costs nothing, and the
first byte of a compressed answer comes early.

The verdict is information: it does not make a simulation fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from records.units import format_seconds, format_size
from simulator.modes import Mode
from simulator.rounds import Rounds, paired

from .figures import SAME_WITHIN, M, Measured, is_compared, microseconds, share

REPEATS_WITHIN: Final = 0.10  # the spread of rounds on a quiet machine, at most


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure, and the largest ratio of lazy to eager that is wanted."""

    label: str
    value: Callable[[Measured], float]
    text: Callable[[float], str]
    at_most: float
    words: str
    is_of_compressed: bool = False  # wanted only where a log is compressed


# "No later" and "never more" are as exact as two runs of the same are.
GOALS: Final = (
    Goal("CPU a record", lambda run: run.cpu_per_record, microseconds, 1.05, "at most 1.05x"),
    Goal(
        "last byte, mean", lambda run: run.last_byte_mean, format_seconds, SAME_WITHIN, "no later"
    ),
    Goal("last byte, p50", lambda run: run.last_byte(50), format_seconds, SAME_WITHIN, "no later"),
    Goal(
        "first byte, p50",
        lambda run: run.first_byte(50),
        format_seconds,
        0.1,
        "10x earlier",
        is_of_compressed=True,
    ),
    Goal("peak memory", lambda run: run.peak, format_size, SAME_WITHIN, "never more"),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """One goal, measured. The first texts are as they are shown.

    ratio: the median of the rounds' ratios of lazy to eager; None: there was nothing to divide by.
    wanted: empty where nothing is. spread: of the rounds, the larger of both modes."""

    label: str
    lazy: str
    eager: str
    ratio: float | None
    wanted: str
    is_met: bool | None
    spread: float

    def to_json(self) -> dict[str, str | float | bool | None]:
        return {
            "figure": self.label,
            "ratio": self.ratio,
            "wanted": self.wanted,
            "is_met": self.is_met,
            "spread": self.spread,
        }

    @property
    def ratio_text(self) -> str:
        return "" if self.ratio is None else f"{self.ratio:.2f}x"

    @property
    def is_met_text(self) -> str:
        return {True: "met", False: "missed", None: ""}[self.is_met]


def costs(modes: Mapping[Mode, Rounds[M]], *, is_compressed: bool) -> list[Cost]:
    """Of all goals; none where not both modes were run."""
    if not is_compared(modes):
        return []
    lazy, eager = modes["lazy"], modes["eager"]
    found = []
    for goal in GOALS:
        is_wanted = is_compressed or not goal.is_of_compressed
        ratio = paired(lazy, eager, goal.value)
        found.append(
            Cost(
                goal.label,
                goal.text(lazy.middle(goal.value)),
                goal.text(eager.middle(goal.value)),
                ratio,
                goal.words if is_wanted else "",
                ratio <= goal.at_most if is_wanted and ratio is not None else None,
                max(lazy.spread(goal.value), eager.spread(goal.value)),
            )
        )
    return found


def verdict(found: Sequence[Cost]) -> tuple[str, bool]:
    """In a line what was met and what was missed, and whether all was met."""
    missed = [cost for cost in found if cost.is_met is False]
    unknown = [cost.label for cost in found if cost.wanted and cost.is_met is None]
    if not missed and unknown:
        return f"not known of lazy beside eager: {', '.join(unknown)}", False
    if not missed:
        return "lazy beside eager is all that is wanted", True
    words = ", ".join(f"{cost.label} {cost.ratio_text} (wanted: {cost.wanted})" for cost in missed)
    return f"lazy beside eager misses {words}", False


def repeatability(found: Sequence[Cost], rounds: int) -> tuple[str, bool]:
    """In a line by how much the rounds differ, and whether the figures can be relied on."""
    if rounds == 1:
        return "one round: how well these figures repeat is not known", False
    worst = max(found, key=lambda cost: cost.spread)
    words = f"{rounds} rounds differ by up to {share(worst.spread)} ({worst.label})"
    if worst.spread <= REPEATS_WITHIN:
        return words, True
    limit = share(REPEATS_WITHIN)
    return f"{words}, more than {limit}: the machine was busy, or a round too short", False
