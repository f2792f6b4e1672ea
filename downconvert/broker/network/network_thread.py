"""One thread that serves connections, in turns.

In each turn, the thread handles events that other threads have posted for its exchanges, for a
bounded time. Then it makes one write for each response under way, and looks for new requests in
between.

Not here: the steps of a connection (processor.py), listening (server.py)."""

from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from selectors import EVENT_READ, EVENT_WRITE
from threading import Thread, get_ident
from typing import Final

from records.logged import log_of

from .connection import Connection
from .epoll_selector import new_selector
from .processor import TURN, Processor
from .serving import Serving
from .wake import Wake

LOG: Final = log_of(__name__)
SWEEP: Final = 1.0  # seconds between checks for connections that have taken too long
SOON: Final = 0.002  # seconds; selectors wait for whole milliseconds, too long for shorter waits
MEMORY_RETRY: Final = 0.01  # seconds until a request that found no memory is tried again


class NetworkThread:
    """A selector, and the connections that it serves.

    keeps_time: whether this thread wakes owners of exchanges at deadlines. on_ticks: called with
    the time about once a second."""

    def __init__(self, serving: Serving, name: str) -> None:
        self.keeps_time = False
        self.on_ticks: list[Callable[[float], None]] = []
        self._serving = serving
        self._broker = serving.broker
        self._clock = serving.clock
        self._limits = serving.limits
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._selector = new_selector()
        self._wake = Wake()
        self._new: deque[Connection] = deque()
        self._evicted: deque[Connection] = deque()
        self.processor = Processor(serving, self._selector, self._ring)
        self._ident = 0  # the thread's ident, once it runs
        self._until = 0.0  # the latest time of the next read of the clock
        self._stop_by: float | None = None
        self._ends_after: tuple[NetworkThread, ...] = ()
        self._next_sweep = 0.0

    # --- methods for other threads

    def start(self) -> None:
        self._thread.start()

    def take(self, connection: Connection) -> None:
        self._new.append(connection)
        self._wake.ring()

    def evict(self, connection: Connection) -> None:
        """Another connection takes the place of this one, whose client has not logged in."""
        self._evicted.append(connection)
        self._wake.ring()

    def wake_by(self, deadline: float) -> None:
        """Wakes the thread at that time."""
        if deadline < self._until:
            self._ring()

    def wake_up(self) -> None:
        """Wakes the thread, which then checks everything again."""
        self._wake.ring()

    def stop(self, after: Iterable["NetworkThread"] = ()) -> None:
        """Ends the thread once its requests are finished, or after the limits' time.

        `after`: threads that may still give it connections. It ends after them."""
        self._ends_after = tuple(after)
        self._stop_by = self._clock() + self._limits.stop
        self._wake.ring()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _ring(self) -> None:
        """Wakes the thread, unless it is the caller."""
        if get_ident() != self._ident:
            self._wake.ring()

    # --- the thread

    def _run(self) -> None:
        self._ident = get_ident()
        self._selector.register(self._wake.reader, EVENT_READ)
        while self._stop_by is None or not self._is_over():
            self._turn()
        served = self.processor.served
        while self._new:
            served.add(self._new.popleft())
        served.close_all()
        self._selector.close()
        self._wake.close()

    def _is_over(self) -> bool:
        served = self.processor.served
        served.close_unused()
        if any(one.is_alive() for one in self._ends_after):
            return False
        return not (served or self._new) or self._clock() >= (self._stop_by or 0.0)

    def _turn(self) -> None:
        processor = self.processor
        now, until = processor.now, self._next_sweep
        if self.keeps_time:
            self._until = inf
            purgatory = self._broker.purgatory
            deadline = purgatory.next_deadline
            if purgatory.notified or deadline <= now:
                deadline = self._keep_time(now)
            until = min(until, deadline)
        if processor.muted.ends:
            processor.unmute(now)
            until = min(until, processor.muted.next_end)
        self._until = until
        if processor.done:
            processor.begin_sends()
        owner, left = processor.owner, until - now
        if (
            processor.sending
            or self._new
            or processor.pending
            or owner.due
            or owner.turns
            or left < SOON
        ):
            left = 0.0
        elif processor.waiting_for_memory:
            left = min(left, MEMORY_RETRY)
        ready = self._selector.select(left)
        processor.now = self._clock()
        for key, events in ready:
            connection = key.data
            if connection is None:
                self._wake.drain()
            elif events & EVENT_WRITE and connection.send is not None:
                processor.served.guarded(connection, processor.takes_more)
            else:
                processor.served.guarded(connection, processor.serve)
                if processor.done or processor.sending:
                    processor.send_some()
        if owner.due or owner.turns:
            self._work()
        if processor.waiting_for_memory:
            for _ in range(len(processor.waiting_for_memory)):
                processor.read_one(processor.waiting_for_memory.popleft())
        if processor.pending:
            processor.read_pending()
        if self._new:
            self._add_new()
        if processor.unread:
            processor.end_unread()
        while self._evicted:
            processor.served.evict(self._evicted.popleft())
        if processor.done:
            processor.begin_sends()
        if processor.sending:
            processor.send_for(TURN)
        if processor.now >= self._next_sweep:
            self._sweep(processor.now)

    def _keep_time(self, now: float) -> float:
        """The next deadline; infinity: there is none, or it is unknown."""
        try:
            return self._broker.keep_time(now)
        except Exception:
            LOG.exception("a defect in timed work")
            return inf

    def _work(self) -> None:
        """Runs due steps of this thread's exchanges for a bounded time, and one turn of continuing
        work."""
        processor = self.processor
        until = processor.now + TURN
        while processor.now < until and self._broker.run_due(processor.owner, processor.now):
            processor.now = self._clock()
        self._broker.run_turn(processor.owner, processor.now)
        processor.now = self._clock()
        processor.tell_timekeeper()  # the handled exchanges may have new deadlines

    def _add_new(self) -> None:
        processor = self.processor
        served, until = processor.served, processor.now + TURN
        while self._new and processor.now < until:
            connection = self._new.popleft()
            served.add(connection)
            if connection.place.is_held:
                is_moved = connection.frame is not None  # from another thread, with a request
                served.guarded(connection, processor.serve if is_moved else served.watch)
            else:  # another took its place before this thread knew the connection
                served.evict(connection)
            processor.now = self._clock()

    def _sweep(self, now: float) -> None:
        """Closes connections that have taken too long, and forgets those that have gone. Checks
        the system's clock."""
        served = self.processor.served
        self._next_sweep = now + SWEEP
        self._broker.time_of_day.shift = self._clock.shift()
        served.close_late(now, self._limits)
        self._broker.lines.write_omitted(now)
        self.processor.muted.keep(lambda number: served.of(number) is not None)
        for on_tick in self.on_ticks:
            try:
                on_tick(now)
            except Exception:
                LOG.exception("a defect in the work that is done each second")
