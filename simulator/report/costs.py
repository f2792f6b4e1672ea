"""The cost of lazy conversion compared with eager: CPU, memory, the first byte, the time for all
bytes.

Each is judged only if the rounds repeat well enough. The verdict is information: it does not make a
simulation fail. A figure without a goal is shown, and not judged:

* The median of the last byte. It is later by design: lazy responses share turns, so they end
  together, while eager ones end one after another.
* Memory and the first byte of small responses. Lazy conversion makes those as a whole, too."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from downconvert.conversion.made import ENOUGH
from downconvert.conversion.plan import SMALL_SIZE_MAX
from records.units import format_seconds, format_size
from simulator.modes import Mode
from simulator.rounds import Rounds

from .figures import SAME_WITHIN, SPREAD_MAX, M, Measured, is_compared, microseconds, share

INCONCLUSIVE: Final = "inconclusive"
LATER: Final = (
    "The median of the last byte is later by design, and not judged: lazy responses share turns "
    "and end together, eager ones leave one after another."
)
FIRST: Final = (
    "A lazy response states its exact size first. So it begins when "
    f"{format_size(ENOUGH)} of compressed records have been made, or uncompressed ones measured. "
    "An eager one begins when all of it has been made."
)
QUIET_SPREAD_MAX: Final = 0.10  # of the rounds of a quiet machine
_GIGABYTE: Final = 1e9


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure, and the largest wanted ratio of lazy to eager. at_most: None means no goal.

    is_for_large: no goal if lazy conversion makes responses as a whole, as eager does."""

    label: str
    value: Callable[[Measured], float]
    text: Callable[[float], str]
    at_most: float | None
    words: str
    is_for_large: bool = False


def _seconds_of_a_gigabyte(run: Measured) -> float:
    return _GIGABYTE / run.bytes_per_second if run.bytes_per_second > 0 else 0.0


# "No later" and "never more" are as exact as two runs of the same code.
GOALS: Final = (
    Goal("CPU per record", lambda run: run.cpu_per_record, microseconds, 1.05, "at most 1.05x"),
    Goal("peak memory", lambda run: run.peak, format_size, SAME_WITHIN, "never more", True),
    Goal(
        "first byte, p50",
        lambda run: run.first_byte(50),
        format_seconds,
        SAME_WITHIN,
        "no later",
        True,
    ),
    Goal("time per GB", _seconds_of_a_gigabyte, format_seconds, SAME_WITHIN, "no later"),
    Goal("last byte, p50", lambda run: run.last_byte(50), format_seconds, None, ""),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """One goal, measured. The first texts are as displayed.

    ratio: the lazy median divided by the eager one; None if the eager one is 0. wanted: the goal in
    words; empty without a goal. is_met: None if there is no goal, if the ratio is unknown, or if
    the rounds differ too much for a verdict. spread: of the rounds, the larger one of both
    modes."""

    label: str
    lazy: str
    eager: str
    ratio: float | None
    wanted: str
    is_met: bool | None
    spread: float
    is_busy: bool  # the rounds differ too much for a verdict on a goal

    def to_json(self) -> dict[str, str | float | bool | None]:
        return {
            "figure": self.label,
            "ratio": self.ratio,
            "wanted": self.wanted,
            "is_met": self.is_met,
            "spread": self.spread,
            "is_inconclusive": self.is_busy,
        }

    @property
    def ratio_text(self) -> str:
        return "" if self.ratio is None else f"{self.ratio:.2f}x"

    @property
    def is_met_text(self) -> str:
        if self.is_busy:
            return INCONCLUSIVE
        return {True: "met", False: "missed", None: ""}[self.is_met]


def is_made_at_once(size: int, *, is_compressed: bool) -> bool:
    """Whether lazy conversion makes a whole response before its first byte. `size`: of its records
    in the log."""
    return size <= (ENOUGH if is_compressed else SMALL_SIZE_MAX)


def costs(modes: Mapping[Mode, Rounds[M]], *, are_large: bool) -> list[Cost]:
    """The costs for all goals; empty unless both modes were run. `are_large`: lazy conversion does
    not make these responses at once."""
    if not is_compared(modes):
        return []
    lazy, eager = modes["lazy"], modes["eager"]
    found = []
    for goal in GOALS:
        at_most = goal.at_most if are_large or not goal.is_for_large else None
        ours, theirs = lazy.middle(goal.value), eager.middle(goal.value)
        ratio = ours / theirs if theirs > 0 else None
        spread = max(lazy.spread(goal.value), eager.spread(goal.value))
        is_met, is_busy = None, False
        if at_most is not None and ratio is not None:
            is_busy = not _repeats(ratio, spread, at_most)
            is_met = None if is_busy else ratio <= at_most
        found.append(
            Cost(
                goal.label,
                goal.text(ours),
                goal.text(theirs),
                ratio,
                "" if at_most is None else goal.words,
                is_met,
                spread,
                is_busy,
            )
        )
    return found


def _repeats(ratio: float, spread: float, at_most: float) -> bool:
    """Whether the rounds repeat well enough to compare the ratio with the goal. They differ as
    little as on a quiet machine, or less than the ratio differs from the goal."""
    if spread <= QUIET_SPREAD_MAX:
        return True
    return spread <= SPREAD_MAX and not ratio / (1 + spread) <= at_most <= ratio * (1 + spread)


def verdict(found: Sequence[Cost], rounds: int) -> tuple[str, bool | None]:
    """One sentence, and whether all goals are met (None if unknown)."""
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
