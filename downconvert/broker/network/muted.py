"""Connections that no request is read from for a while, since their clients are over their rate."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf


class Muted:
    """Of one thread, by the numbers of their clients. Times in seconds of any one clock."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def next_end(self) -> float:
        """When the first of them may be read from again; infinity: there is none."""
        return self._ends[0][0] if self._ends else inf

    def add(self, number: int, until: float) -> None:
        heappush(self._ends, (until, number))

    def over(self, now: float) -> Iterator[int]:
        """Those that may be read from again, which are forgotten."""
        while self._ends and self._ends[0][0] <= now:
            yield heappop(self._ends)[1]

    def keep(self, is_there: Callable[[int], bool]) -> None:
        """Forgets the others: those that have gone."""
        self._ends = [one for one in self._ends if is_there(one[1])]
        heapify(self._ends)
