"""One thread that serves connections: reads requests, handles them, sends responses.

A connection's thread owns its exchange, from the last byte of the request to the last byte of the
response. Other threads post the exchange's events to it. In each turn, the thread handles posted
events for a bounded time. Then it makes one write for each response under way, and looks for new
requests in between.

Not here: a connection's start (handshake.py) and end (served_connections.py), listening."""

import selectors
from collections import deque
from collections.abc import Callable, Iterator
from logging import DEBUG
from math import inf
from selectors import EVENT_READ, EVENT_WRITE
from threading import Thread, get_ident
from typing import Final

from downconvert.broker.exchange import Exchange
from downconvert.broker.handlers.apis import ADMINISTRATIVE
from downconvert.broker.operating import request_log
from downconvert.broker.owner import Owner
from downconvert.serving.tls import has_pending
from records.logged import log_of
from records.units import KiB

from .connection import Connection
from .handshake import Handshake
from .muted import Muted
from .served_connections import NOT_NOW, ServedConnections
from .serving import Serving
from .wake import Wake

LOG: Final = log_of(__name__)
SWEEP: Final = 1.0  # seconds between checks for connections that have taken too long
WRITE_BUDGET: Final = 128 * KiB  # bytes written between two reads of the clock
TURN_SIZE_MAX: Final = 256 * KiB  # likewise, if writing them takes a small part of a turn
TURN: Final = 0.0005  # seconds of sending or working until new requests are read
SOON: Final = 0.002  # seconds; selectors wait for whole milliseconds, too long for shorter waits
MEMORY_RETRY: Final = 0.01  # seconds until a request that found no memory is tried again


class NetworkThread:
    """A selector, and the connections that it serves.

    keeps_time: whether this thread wakes owners of exchanges at deadlines. converting: threads that
    take over connections with a request that takes long. administration: the thread that takes over
    connections that change topics. on_ticks: called with the time about once a second."""

    def __init__(self, serving: Serving, name: str) -> None:
        self.keeps_time = False
        self.converting: Iterator[NetworkThread] | None = None
        self.administration: NetworkThread | None = None
        self.on_ticks: list[Callable[[float], None]] = []
        self._serving = serving
        self._broker = serving.broker
        self._clock = serving.clock
        self._limits = serving.limits
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._selector = selectors.DefaultSelector()
        self._wake = Wake()
        self._owner = Owner(self._ring)
        self._new: deque[Connection] = deque()
        self._evicted: deque[Connection] = deque()
        self._done: deque[Exchange] = deque()
        self._sending: deque[Connection] = deque()  # with writable channels
        self._waiting_for_memory: deque[Connection] = deque()  # their requests need it
        self._pending: deque[Connection] = deque()  # with bytes already received
        self._served = ServedConnections(serving.broker, self._selector, serving.clock)
        self._handshake = Handshake(serving, self._served)
        self.muted = Muted()
        self._ident = 0  # the thread's ident, once it runs
        self._now = serving.clock()  # the time after the last wait, request or write
        self._until = 0.0  # the latest time of the next read of the clock
        self._stop_by: float | None = None
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

    def stop(self) -> None:
        self._stop_by = self._clock() + self._limits.stop
        self._wake.ring()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _on_done(self, exchange: Exchange) -> None:
        self._done.append(exchange)
        self._ring()

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
        while self._new:
            self._served.add(self._new.popleft())
        self._served.close_all()
        self._selector.close()
        self._wake.close()

    def _is_over(self) -> bool:
        self._served.close_unused()
        return not (self._served or self._new) or self._clock() >= (self._stop_by or 0.0)

    def _turn(self) -> None:
        now, until = self._now, self._next_sweep
        if self.keeps_time:
            self._until = inf
            if not self._broker.purgatory.is_idle:
                until = min(until, self._keep_time(now) or until)
        if self.muted.ends:
            self._unmute(now)
            until = min(until, self.muted.next_end)
        self._until = until
        if self._done:
            self._begin_sends()
        owner, left = self._owner, until - now
        if self._sending or self._new or self._pending or owner.due or owner.turns or left < SOON:
            left = 0.0
        elif self._waiting_for_memory:
            left = min(left, MEMORY_RETRY)
        ready = self._selector.select(left)
        self._now = self._clock()
        for key, events in ready:
            connection = key.data
            if connection is None:
                self._wake.drain()
            elif events & EVENT_WRITE and connection.send is not None:
                self._served.guarded(connection, self._takes_more)
            else:
                self._read_one(connection)
        if owner.due or owner.turns:
            self._work()
        if self._waiting_for_memory:
            for _ in range(len(self._waiting_for_memory)):
                self._read_one(self._waiting_for_memory.popleft())
        if self._pending:
            self._read_pending()
        if self._new:
            self._add_new()
        while self._evicted:
            self._served.evict(self._evicted.popleft())
        if self._done:
            self._begin_sends()
        if self._sending:
            self._send_for(TURN)
        if self._now >= self._next_sweep:
            self._sweep(self._now)

    def _read_one(self, connection: Connection) -> None:
        """Reads, and answers a request that can be answered at once."""
        self._served.guarded(connection, self._read)
        if self._done:
            self._begin_sends()
        if self._sending:
            self._send_for(0.0)  # one write of a response per new request

    def _read_pending(self) -> None:
        """Handles arrived requests: one of each connection, and more while there is time."""
        until = self._now + TURN
        while self._pending:
            for _ in range(len(self._pending)):
                self._read_one(self._pending.popleft())
            if self._now >= until:
                return

    def _keep_time(self, now: float) -> float | None:
        """The next deadline. None: there is none, or it is unknown."""
        try:
            return self._broker.keep_time(now)
        except Exception:
            LOG.exception("a defect in timed work")
            return None

    def _work(self) -> None:
        """Runs due steps of this thread's exchanges for a bounded time, and one turn of continuing
        work."""
        until = self._now + TURN
        while self._now < until and self._broker.run_due(self._owner, self._now):
            self._now = self._clock()
        self._broker.run_turn(self._owner, self._now)
        self._now = self._clock()
        self._tell_timekeeper()  # the handled exchanges may have new deadlines

    def _tell_timekeeper(self) -> None:
        deadline = self._broker.purgatory.next_deadline()
        if deadline is not None:
            self._serving.wake_timekeeper(deadline)

    def _add_new(self) -> None:
        until = self._now + TURN
        while self._new and self._now < until:
            connection = self._new.popleft()
            self._served.add(connection)
            is_moved = connection.frame is not None  # from another thread, with a request
            self._served.guarded(connection, self._handle if is_moved else self._served.watch)
            self._now = self._clock()

    def _takes_more(self, connection: Connection) -> None:
        connection.waits_to_write = False
        self._served.watch(connection)
        self._sending.append(connection)

    def _read(self, connection: Connection) -> None:
        if connection.exchange is not None or connection.is_muted:
            self._read_ahead(connection)
            return
        if connection.in_handshake and not self._handshake.advance(connection):
            return
        try:
            frame = connection.read()
        except NOT_NOW:
            frame = None
        now = connection.last_activity = self._now
        if frame is None:
            connection.flush()
            if connection.incoming.is_begun and connection.request_started is None:
                connection.request_started = now
            has_space = connection.incoming.space() is not None
            self._served.watch(connection, reads=has_space)
            if not has_space:
                self._waiting_for_memory.append(connection)
            return
        connection.request_started, connection.frame = None, frame
        thread, client = None, connection.client
        if not connection.authenticates:
            if bytes(frame[:2]) in ADMINISTRATIVE:
                thread = self.administration
            elif self.converting and (client.is_converting or self._broker.takes_long(frame)):
                thread = next(self.converting)
        if thread is None:
            self._handle(connection)
            if connection.waits_for_more and (connection.exchange or not connection.ahead):
                connection.flush()
        else:
            connection.flush()
            self._served.leave(connection)
            thread.take(connection)

    def _handle(self, connection: Connection) -> None:
        """Handles the request. It gets an exchange, which this thread owns."""
        frame, connection.frame = connection.frame, None
        assert frame is not None
        exchange = connection.exchange = self._broker.handle(
            connection.client, frame, self._now, None, self._owner
        )
        if exchange.is_done:
            self._write(connection)
            return
        exchange.on_done = self._on_done
        if exchange.is_done:  # by another thread, perhaps before `on_done` was set
            self._on_done(exchange)
        self._now = self._clock()
        self._served.watch(connection)
        self._tell_timekeeper()

    def _read_ahead(self, connection: Connection) -> None:
        """Handles an arrival before the last response is sent, or while the client is muted. It is
        the next request, which must wait, or the end of the connection."""
        connection.check_open()
        self._served.watch(connection, reads=False)

    def _begin_sends(self) -> None:
        while self._done:
            exchange = self._done.popleft()
            connection = self._served.of(exchange.client.id)
            if connection is None or connection.exchange is not exchange:
                continue
            if connection.send is None:  # otherwise it is queued for sending already
                self._served.guarded(connection, self._write)

    def _send_for(self, seconds: float) -> None:
        """Makes one write for each connection with bytes to send, in turns. At least one in all."""
        until = self._now + seconds
        while self._sending:
            connection = self._sending.popleft()
            if connection.send is not None:
                self._served.guarded(connection, self._write)
            if self._now >= until:
                return

    def _write(self, connection: Connection) -> None:
        """The exchange is done. Sends its response, or more of it."""
        send = connection.send
        if send is None:
            assert connection.exchange is not None
            send = connection.send = connection.exchange.send
            if send is None:  # its client expects no response
                self._now = self._clock()
                self._finish(connection, self._now)
                return
        more = connection.waits_for_more = connection.goes_on if connection.ahead else False
        size, until, before = WRITE_BUDGET, inf, -inf
        while True:  # fills the socket's buffer while the data is in the CPU's cache
            written = send.write_to(connection.channel, size, more=more)
            now = self._now = self._clock()
            if written:
                connection.last_activity = now
            if send.sent == send.size:
                self._finish(connection, now)
                return
            if written < size or now >= until:
                break
            until = min(until, now + TURN)
            if now - before < TURN / 4:  # so that reading the clock costs less than sending
                size = min(2 * size, TURN_SIZE_MAX)
            before = now
        if written:
            self._sending.append(connection)
        else:
            connection.waits_to_write = True
            self._served.watch(connection, reads=False)

    def _finish(self, connection: Connection, now: float) -> None:
        """Ends the exchange. The next request may come."""
        exchange = connection.exchange
        assert exchange is not None
        connection.exchange = connection.send = None
        self._broker.finished(exchange, now)
        if exchange.errors or request_log.LOG.logger.isEnabledFor(DEBUG):
            request_log.log_answer(exchange, now)
        if exchange.close_after_reply:
            self._served.close(connection, exchange.end, exchange.why)
            return
        if connection.incoming.is_begun:
            connection.incoming.release()
        if connection.authenticates and connection.client.access is not None:
            self._handshake.settle(connection)
        connection.request_started = now if connection.authenticates else None
        if exchange.throttle:
            self._mute(connection, exchange.now + exchange.throttle)
        elif connection.interest != EVENT_READ or connection.ahead or connection.is_tls:
            self._listen_to(connection)

    def _mute(self, connection: Connection, until: float) -> None:
        """Handles no request of the connection until that time of the clock."""
        connection.mute()
        self.muted.add(connection.client.id, until)
        self._served.watch(connection)

    def _unmute(self, now: float) -> None:
        for number in self.muted.over(now):
            connection = self._served.of(number)
            if connection is not None:
                connection.is_muted, connection.last_activity = False, now
                self._served.guarded(connection, self._listen_to)

    def _listen_to(self, connection: Connection) -> None:
        """Waits for its next request. Its bytes may be here already, or be held by TLS."""
        self._served.watch(connection)
        if connection.ahead or (connection.is_tls and has_pending(connection.channel)):
            self._pending.append(connection)

    def _sweep(self, now: float) -> None:
        """Closes connections that have taken too long, and forgets those that have gone. Checks
        the system's clock."""
        self._next_sweep = now + SWEEP
        self._broker.time_of_day.shift = self._clock.shift()
        self._served.close_late(now, self._limits)
        self._broker.lines.write_omitted(now)
        self.muted.keep(lambda number: self._served.of(number) is not None)
        for on_tick in self.on_ticks:
            try:
                on_tick(now)
            except Exception:
                LOG.exception("a defect in the work of every second")
