"""Delayed operations: a fetch waits for records, a produce for replicas, a group for a deadline.

A request waits for *keys*, such as a partition. Code that changes a partition calls `notify` with
its key. `notify` only notes the key, because the caller may hold locks. `complete_due` then posts
to the owner of each request that waits for the key or is past its deadline. The owner checks
whether its request is due, and completes it in a turn of its own. So a producer's append costs the
same, however many consumers wait for it.

Not here: the owners (owner.py)."""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from threading import Lock
from typing import Final, Protocol

from .exchange import Exchange

# Deadlines of completed operations that may stay, besides twice the number of waiting ones.
STALE_MAX: Final = 64


class Waiting(Protocol):
    """A delayed operation. It is completed once, when it is due or at its deadline."""

    def is_due(self) -> bool:
        """Whether it can be completed now. Changes nothing."""

    def complete(self, now: float, *, timed_out: bool) -> None:
        """Completes the operation. Called once, with no lock held."""


class _Call:
    """Calls a function with the time, at a deadline."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[float], None]) -> None:
        self._function = function

    def is_due(self) -> bool:
        return False  # it only has a deadline

    def complete(self, now: float, *, timed_out: bool) -> None:  # noqa: ARG002
        self._function(now)


class _Entry:
    __slots__ = ("exchange", "is_late", "is_posted", "keys", "waiting")

    def __init__(
        self, waiting: Waiting, keys: tuple[Hashable, ...], exchange: Exchange | None
    ) -> None:
        self.waiting = waiting
        self.keys = keys
        self.exchange = exchange
        self.is_late = False  # its deadline has passed
        self.is_posted = False  # posted to its owner, which has not checked it since


class Purgatory:
    """The delayed operations of a broker.

    Any thread may call `notify` and `complete_due`. next_deadline: the latest time to call
    `complete_due`, in seconds of the broker's clock; infinity: nothing waits."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[int, _Entry] = {}
        self._by_key: defaultdict[Hashable, dict[int, _Entry]] = defaultdict(dict)
        self._by_exchange: dict[Exchange, int] = {}
        # A heap. Its first element is the deadline of an operation that still waits.
        self._deadlines: list[tuple[float, int]] = []
        self.next_deadline = inf
        self.notified: deque[Hashable] = deque()  # keys, until `complete_due` is called
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
        """Completes an operation when a key was notified and the operation is due, or at its
        deadline, in seconds of the broker's clock. If the deadline is not after `now`, completes it
        at once.

        exchange: the waiting request. Its owner must call this, and completes the operation. None:
        the thread that calls `complete_due` completes it."""
        entry = _Entry(waiting, tuple(dict.fromkeys(keys)), exchange)
        entry.is_late = deadline <= now  # set before the thread that keeps time can set it
        with self._lock:
            number = next(self._numbers)
            self._entries[number] = entry
            for key in entry.keys:
                self._by_key[key][number] = entry
            if exchange is not None:
                self._by_exchange[exchange] = number
                exchange.has_waited = True
            heappush(self._deadlines, (deadline, number))
            self.next_deadline = self._deadlines[0][0]
        # A key may have been notified since the caller's check.
        self._complete_if_due(number, now)

    def call_at(self, deadline: float, function: Callable[[float], None], now: float) -> None:
        """Calls a function once, with the time, at a deadline, or at once if the deadline has
        passed."""
        self.watch(_Call(function), (), now, deadline)

    def forget(self, exchange: Exchange) -> None:
        """Removes the operation of a client that has gone. Only the owner may call this."""
        number = self._by_exchange.get(exchange)
        if number is not None:
            self._take(number)

    def expire(self, exchange: Exchange) -> None:
        """The operation of this request waits no longer. Only the owner may call this."""
        number = self._by_exchange.get(exchange)
        if number is not None:
            self._entries[number].is_late = True
            self._complete_if_due(number, exchange.now)

    def notify(self, key: Hashable) -> None:
        """The partition (or other object) of this key has changed."""
        # Operations that begin to wait later check themselves, and so find the change.
        if key in self._by_key:
            self.notified.append(key)

    def complete_due(self, now: float, *, expires: bool = True) -> None:
        """Posts to the owners of operations that wait for a notified key. If `expires`, also to the
        owners of operations past their deadline."""
        while True:
            while self.notified:
                try:
                    key = self.notified.popleft()
                except IndexError:  # another thread took it
                    break
                with self._lock:
                    entries = list(self._by_key.get(key, {}).items())
                for number, entry in entries:
                    self._post(number, entry, now)
            if expires:
                self._expire(now)
            if not self.notified:
                return

    def _expire(self, now: float) -> None:
        """Posts to the owners of operations past their deadline."""
        while True:
            with self._lock:
                if self.next_deadline > now:
                    return
                _, number = heappop(self._deadlines)
                entry = self._entries[number]
                self._drop_completed()
            entry.is_late = True
            self._post(number, entry, now)

    def _post(self, number: int, entry: _Entry, now: float) -> None:
        if entry.exchange is None:
            self._complete_if_due(number, now)
        elif not entry.is_posted:
            entry.is_posted = True
            entry.exchange.post(partial(self._complete_if_due, number))

    def _complete_if_due(self, number: int, now: float) -> None:
        """Completes an operation if it is due or late. Only its owner calls this."""
        entry = self._entries.get(number)
        if entry is None:
            return
        entry.is_posted = False  # so that a later notification is posted
        waiting = entry.waiting
        if waiting.is_due():
            if self._take(number):
                waiting.complete(now, timed_out=False)
        elif entry.is_late and self._take(number):
            waiting.complete(now, timed_out=True)

    def _take(self, number: int) -> bool:
        """Removes an operation. Returns whether it was still there, because only the first caller
        may complete it."""
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
            self._drop_completed()
            return True

    def _drop_completed(self) -> None:
        """Removes the first deadlines while their operations are completed. The caller holds the
        lock."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self._entries:
            heappop(deadlines)
        self.next_deadline = deadlines[0][0] if deadlines else inf
