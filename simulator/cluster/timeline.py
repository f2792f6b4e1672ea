"""Simulated time: a queue of events. Nothing here reads a clock or waits.

Events at the same time happen in the order in which they were added."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Action = Callable[[], None]


class Timeline:
    """Events in their order; `now` in seconds since the epoch."""

    def __init__(self, start: float) -> None:
        self.now = start
        self._numbers = count()
        self._events: list[tuple[float, int, Action]] = []

    def __len__(self) -> int:
        return len(self._events)

    def at(self, time: float, action: Action) -> None:
        """Adds an event. One in the past happens now."""
        heappush(self._events, (max(time, self.now), next(self._numbers), action))

    def after(self, seconds: float, action: Action) -> None:
        self.at(self.now + seconds, action)

    def run_until(self, time: float) -> None:
        """Runs all events up to a time, and sets the clock to it."""
        while self._events and self._events[0][0] <= time:
            self.now, _, action = heappop(self._events)
            action()
        self.now = max(self.now, time)
