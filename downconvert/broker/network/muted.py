"""Connections that are muted, because their clients exceeded their rate."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf


class Muted:
    """The muted clients of one thread, by their numbers. Times in seconds of any one clock."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, int]] = []  # a heap: when each mute ends, and the client

    @property
    def next_end(self) -> float:
        """The earliest time when a client may be read again. Infinity: no client is muted."""
        return self.ends[0][0] if self.ends else inf

    def add(self, number: int, until: float) -> None:
        heappush(self.ends, (until, number))

    def over(self, now: float) -> Iterator[int]:
        """Yields, and forgets, the clients that may be read again."""
        while self.ends and self.ends[0][0] <= now:
            yield heappop(self.ends)[1]

    def keep(self, is_there: Callable[[int], bool]) -> None:
        """Forgets clients that have gone."""
        self.ends = [one for one in self.ends if is_there(one[1])]
        heapify(self.ends)
