"""Rounds: each mode is measured several times, so that the spread of a figure is known.

Modes take turns within a round, and each round begins with another mode. Then other load on the
machine slows all of them, and none is always the first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median_high, median_low
from typing import Any, Final, Generic, TypeVar

ROUNDS: Final = 3  # by default
ROUNDS_MAX: Final = 99
RATE: Final = "_second"  # the end of a rate's name in JSON

T = TypeVar("T")


@dataclass(slots=True)
class Rounds(Generic[T]):
    """All rounds of one mode."""

    each: list[T] = field(default_factory=list)

    def middle(self, value: Callable[[T], float], *, higher: bool = False) -> float:
        """The median of the rounds. It is always a measured value, so with an even number of rounds
        it is one of the two middle values: the higher one if `higher`."""
        return (median_high if higher else median_low)(map(value, self.each))

    def spread(self, value: Callable[[T], float]) -> float:
        """The distance from the lowest to the highest round, as a share of the median; 0 for a
        median of 0."""
        values = [value(one) for one in self.each]
        middle = median_low(values)
        return (max(values) - min(values)) / middle if middle > 0 else 0.0

    def typical(self, value: Callable[[T], float]) -> T:
        """The round with the median."""
        values = [value(one) for one in self.each]
        return self.each[values.index(median_low(values))]

    def total(self, value: Callable[[T], int]) -> int:
        return sum(map(value, self.each))


def turns(names: Sequence[T], number: int) -> list[T]:
    """The order of a round: each begins with the name after the first one of the round before."""
    at = number % len(names)
    return [*names[at:], *names[:at]]


def merged(documents: Sequence[Any], name: str = "") -> Any:
    """Merges the JSON of several rounds: the median of each number, and the first of other
    values. `name` is that of the documents in a larger one."""
    first = documents[0]
    if isinstance(first, dict):
        return {name: merged([one[name] for one in documents], name) for name in first}
    if isinstance(first, (int, float)):
        return Rounds(list(documents)).middle(lambda one: one, higher=name.endswith(RATE))
    return first
