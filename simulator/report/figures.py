"""Figures: their names, their formats, which direction is better, and the comparison of lazy with
eager in words.

Not here: the figures of each simulation (fetch/metrics.py, load/metrics.py)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

from records.units import format_rate
from simulator.modes import Mode
from simulator.rounds import Rounds

SAME_WITHIN: Final = 1.05  # the difference of two runs of the same code
SPREAD_MAX: Final = 0.5  # of the rounds; a figure with a larger spread is not judged


class Measured(Protocol):
    """The measurements of every simulation in a round of one mode. Sizes are bytes, times seconds.

    peak: memory of the process that converts, above idle. cpu_per_record: CPU seconds of the same
    process. first_byte, last_byte: percentiles over the fetches with converted records, from the
    request on, by consumers that read as fast as they can."""

    @property
    def peak(self) -> int: ...

    @property
    def cpu_per_record(self) -> float: ...

    @property
    def bytes_per_second(self) -> float: ...

    @property
    def records_per_second(self) -> float: ...

    def first_byte(self, percent: float) -> float: ...

    def last_byte(self, percent: float) -> float: ...


M = TypeVar("M", bound=Measured)


@dataclass(frozen=True, slots=True)
class Figure(Generic[M]):
    """One row of a table. `better` is empty if neither less nor more is better."""

    group: str
    label: str
    value: Callable[[M], float]
    text: Callable[[float], str]
    better: Literal["less", "more", ""] = ""

    def shown(self, rounds: Rounds[M]) -> str:
        return self.text(self.middle(rounds))

    def middle(self, rounds: Rounds[M]) -> float:
        """The median, or the better of two middle values, so that a rate and its inverse
        agree."""
        return rounds.middle(self.value, higher=self.better == "more")

    def comparison(self, modes: Mapping[Mode, Rounds[M]]) -> tuple[str, bool | None]:
        """Lazy compared with eager in words ("21x less"), and whether that is good. None if it is
        neither good nor bad, if they differ by less than the rounds of one mode, or if the rounds
        differ by more than SPREAD_MAX."""
        if not self.better or not is_compared(modes):
            return "", None
        lazy, eager = (self.middle(modes[mode]) for mode in ("lazy", "eager"))
        words, is_good = compared(lazy, eager, self.better)
        spread = self.spread(modes)
        if is_good is None or max(lazy / eager, eager / lazy) - 1 <= spread or spread > SPREAD_MAX:
            return words, None
        return words, is_good

    def spread(self, modes: Mapping[Mode, Rounds[M]]) -> float:
        """The largest spread of all modes."""
        return max(rounds.spread(self.value) for rounds in modes.values())


def is_compared(modes: Mapping[Mode, Rounds[M]]) -> bool:
    return "lazy" in modes and "eager" in modes


def compared(lazy: float, eager: float, better: str) -> tuple[str, bool | None]:
    """One value compared with another in words, and whether that is good (None if neither good nor
    bad)."""
    if lazy <= 0 or eager <= 0:
        return "", None
    ratio = max(lazy / eager, eager / lazy)
    if ratio <= SAME_WITHIN:
        return "same", None
    direction = "less" if lazy < eager else "more"
    factor = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    return f"{factor}x {direction}", direction == better


def throughput_figures() -> tuple[Figure[M], ...]:
    """The figures of all simulations."""
    return (
        Figure("work", "bytes a second", lambda run: run.bytes_per_second, megabytes, "more"),
        Figure("work", "records a second", lambda run: run.records_per_second, format_rate, "more"),
        Figure("work", "records a CPU second", records_per_cpu_second, format_rate, "more"),
    )


def records_per_cpu_second(run: Measured) -> float:
    """Nearly independent of other load on the machine."""
    return 1 / run.cpu_per_record if run.cpu_per_record > 0 else 0.0


def count(value: float) -> str:
    return f"{value:,.0f}"


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB/s"


def cpu_seconds(value: float) -> str:
    return f"{value:.2f} s"


def microseconds(value: float) -> str:
    return f"{value * 1e6:.3g} us"


def share(value: float) -> str:
    return f"{value * 100:.0f} %"
