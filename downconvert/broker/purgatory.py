"""Requests that wait: a fetch for records, a produce for replicas, a join for the other members.

A request waits for *keys* (a partition, a group). Who changes something touches its key; nothing
happens there and then, as locks may be held. `settle` looks at the waiting ones afterwards."""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from heapq import heappop, heappush
from itertools import count
from threading import Lock
from typing import Protocol


class Waiting(Protocol):
    """Something that is completed once: when it is due, or when its time is up."""

    def is_due(self) -> bool:
        """Whether it can be completed now. Cheap, changes nothing, takes no lock for long."""

    def complete(self, now: float, *, timed_out: bool) -> None:
        """Does what there is to do. Called once, with no lock held."""


class _Entry:
    __slots__ = ("keys", "waiting")

    def __init__(self, waiting: Waiting, keys: tuple[Hashable, ...]) -> None:
        self.waiting: Waiting | None = waiting  # None: it has been taken out
        self.keys = keys


class Purgatory:
    """All that waits in a broker. Any thread may call anything."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_key: defaultdict[Hashable, dict[int, _Entry]] = defaultdict(dict)
        self._by_deadline: list[tuple[float, int, _Entry]] = []
        self._touched: deque[Hashable] = deque()
        self._numbers = count()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def watch(
        self, waiting: Waiting, keys: Iterable[Hashable], now: float, deadline: float
    ) -> None:
        """Completes it when it is due after a touch of one of the keys, or at its deadline, in
        seconds of the broker's clock; at once where that is now."""
        entry = _Entry(waiting, tuple(dict.fromkeys(keys)))
        with self._lock:
            number = next(self._numbers)
            for key in entry.keys:
                self._by_key[key][number] = entry
            heappush(self._by_deadline, (deadline, number, entry))
            self._waiting += 1
        # What happened between the caller's look and ours was touched before we watched.
        if waiting.is_due() and self._take(number, entry):
            waiting.complete(now, timed_out=False)
        elif deadline <= now and self._take(number, entry):
            waiting.complete(now, timed_out=True)

    def touch(self, key: Hashable) -> None:
        """Something about the key changed."""
        self._touched.append(key)

    def settle(self, now: float, *, expires: bool = True) -> None:
        """Completes what is due, and what that makes due, and, if `expires`, what has waited for
        too long."""
        while True:
            while self._touched:
                try:
                    key = self._touched.popleft()
                except IndexError:  # another thread was faster
                    break
                with self._lock:
                    entries = list(self._by_key.get(key, {}).items())
                for number, entry in entries:
                    waiting = entry.waiting
                    if waiting is not None and waiting.is_due() and self._take(number, entry):
                        waiting.complete(now, timed_out=False)
            if not (expires and self._expire(now)) and not self._touched:
                return

    def next_deadline(self) -> float | None:
        """When to call `settle` at the latest; None: nothing waits."""
        with self._lock:
            while self._by_deadline and self._by_deadline[0][2].waiting is None:
                heappop(self._by_deadline)
            return self._by_deadline[0][0] if self._by_deadline else None

    def _expire(self, now: float) -> bool:
        """Completes what has waited too long; whether anything had."""
        expired = False
        while True:
            with self._lock:
                if not self._by_deadline or self._by_deadline[0][0] > now:
                    return expired
                _, number, entry = heappop(self._by_deadline)
                waiting = entry.waiting
            if waiting is not None and self._take(number, entry):
                expired = True
                waiting.complete(now, timed_out=True)

    def _take(self, number: int, entry: _Entry) -> bool:
        """Takes it out, for whoever is first."""
        with self._lock:
            if entry.waiting is None:
                return False
            entry.waiting = None
            self._waiting -= 1
            for key in entry.keys:
                entries = self._by_key[key]
                del entries[number]
                if not entries:
                    del self._by_key[key]
            return True
