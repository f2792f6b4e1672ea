"""Requests that wait: a fetch for records, a produce for replicas; and groups, for their deadlines.

A request waits for *keys* (a partition). Whoever changes something calls `notify` with its key;
nothing happens there and then, as locks may be held. `complete_due` then posts to the owners of
what waits for the key, and of what has waited for too long. Each owner checks for itself whether
its request is due, and completes it in a turn of its own. So a producer's append costs the same
however many consumers wait for it.

Not here: what an owner is (owner.py)."""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from threading import Lock
from typing import Final, Protocol

from .exchange import Exchange

STALE_MAX: Final = 64  # deadlines of what waits no more, beyond as many as are still to come


class Waiting(Protocol):
    """A delayed operation: completed once, when it is due or at its deadline."""

    def is_due(self) -> bool:
        """Whether it can be completed now. Changes nothing."""

    def complete(self, now: float, *, timed_out: bool) -> None:
        """Does what there is to do. Called once, with no lock held."""


class _Entry:
    __slots__ = ("exchange", "is_late", "is_posted", "keys", "waiting")

    def __init__(
        self, waiting: Waiting, keys: tuple[Hashable, ...], exchange: Exchange | None
    ) -> None:
        self.waiting = waiting
        self.keys = keys
        self.exchange = exchange
        self.is_late = False  # its deadline has passed
        self.is_posted = False  # posted to its owner, who has not looked since


class Purgatory:
    """All that waits in a broker.

    Any thread may call `notify`, `complete_due` and `next_deadline`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[int, _Entry] = {}
        self._by_key: defaultdict[Hashable, dict[int, _Entry]] = defaultdict(dict)
        self._by_exchange: dict[Exchange, int] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._notified: deque[Hashable] = deque()
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def watch(
        self,
        waiting: Waiting,
        keys: Iterable[Hashable],
        now: float,
        deadline: float,
        exchange: Exchange | None = None,
    ) -> None:
        """Completes it when it is due after one of the keys was notified, or at its deadline, in
        seconds of the broker's clock; at once where that is now.

        exchange: the one that waits; only its owner may call this, and completes it. None: the
        thread that calls `complete_due` completes it."""
        entry = _Entry(waiting, tuple(dict.fromkeys(keys)), exchange)
        with self._lock:
            number = next(self._numbers)
            self._entries[number] = entry
            for key in entry.keys:
                self._by_key[key][number] = entry
            if exchange is not None:
                self._by_exchange[exchange] = number
                exchange.has_waited = True
            heappush(self._deadlines, (deadline, number))
        # What happened after the caller's look, and before this, notified nobody.
        entry.is_late = deadline <= now
        self._look(number, now)

    def forget(self, exchange: Exchange) -> None:
        """Its client has gone. Only the owner may call this."""
        number = self._by_exchange.get(exchange)
        if number is not None:
            self._take(number)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and nothing was notified."""
        return not (self._entries or self._notified)

    @property
    def has_news(self) -> bool:
        """Whether a key was notified for which `complete_due` has not been called since."""
        return bool(self._notified)

    def notify(self, key: Hashable) -> None:
        """Something about the key changed."""
        self._notified.append(key)

    def complete_due(self, now: float, *, expires: bool = True) -> None:
        """Posts to the owners of what waits for a key that was notified, and, if `expires`, of what
        has waited for too long."""
        while True:
            while self._notified:
                try:
                    key = self._notified.popleft()
                except IndexError:  # another thread was faster
                    break
                with self._lock:
                    entries = list(self._by_key.get(key, {}).items())
                for number, entry in entries:
                    self._tell(number, entry, now)
            if not (expires and self._expire(now)) and not self._notified:
                return

    def next_deadline(self) -> float | None:
        """When to call `complete_due` at the latest; None: nothing waits."""
        with self._lock:
            deadlines = self._deadlines
            while deadlines and deadlines[0][1] not in self._entries:
                heappop(deadlines)
            return deadlines[0][0] if deadlines else None

    def _expire(self, now: float) -> bool:
        """Posts to the owners of what is past its deadline. Returns whether anything was."""
        expired = False
        while True:
            with self._lock:
                if not self._deadlines or self._deadlines[0][0] > now:
                    return expired
                _, number = heappop(self._deadlines)
                entry = self._entries.get(number)
            if entry is not None:
                expired = entry.is_late = True
                self._tell(number, entry, now)

    def _tell(self, number: int, entry: _Entry, now: float) -> None:
        if entry.exchange is None:
            self._look(number, now)
        elif not entry.is_posted:
            entry.is_posted = True
            entry.exchange.post(partial(self._look, number))

    def _look(self, number: int, now: float) -> None:
        """Completes it if it is due, or late. Only its owner calls this."""
        entry = self._entries.get(number)
        if entry is None:
            return
        entry.is_posted = False  # what happens from here on is posted again
        waiting = entry.waiting
        if waiting.is_due():
            if self._take(number):
                waiting.complete(now, timed_out=False)
        elif entry.is_late and self._take(number):
            waiting.complete(now, timed_out=True)

    def _take(self, number: int) -> bool:
        """Removes it; whether it was still there. Only the first caller completes it."""
        with self._lock:
            entry = self._entries.pop(number, None)
            if entry is None:
                return False
            for key in entry.keys:
                entries = self._by_key[key]
                del entries[number]
                if not entries:
                    del self._by_key[key]
            if entry.exchange is not None and self._by_exchange.get(entry.exchange) == number:
                del self._by_exchange[entry.exchange]
            if len(self._deadlines) > 2 * len(self._entries) + STALE_MAX:
                self._deadlines = [one for one in self._deadlines if one[1] in self._entries]
                heapify(self._deadlines)
            return True
