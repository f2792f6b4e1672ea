"""Processes the requests of one thread's connections: reads them, handles them, sends responses.

A connection's thread owns its exchange, from the last byte of the request to the last byte of the
response. Each step is of one connection, takes a short time, and leaves what is not ready to a
later turn.

Not here: the thread and its turns (network_thread.py), a connection's start (handshake.py) and end
(served_connections.py)."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from logging import DEBUG
from math import inf
from selectors import EVENT_READ, BaseSelector
from typing import Final, Protocol

from downconvert.broker.broker import LARGE_SIZE
from downconvert.broker.exchange import Exchange
from downconvert.broker.handlers.apis import ADMINISTRATIVE, OF_RECORDS
from downconvert.broker.operating import request_log
from downconvert.broker.owner import Owner
from downconvert.protocol.responses import ResponseSend
from downconvert.serving.tls import has_pending
from records.units import KiB

from .connection import Connection
from .handshake import Handshake
from .muted import Muted
from .served_connections import NOT_NOW, ServedConnections
from .serving import Serving

WRITE_BUDGET: Final = 128 * KiB  # bytes written between two reads of the clock
TURN_SIZE_MAX: Final = 256 * KiB  # likewise, if writing them takes a small part of a turn
TURN: Final = 0.0005  # seconds of sending or working until new requests are read


class Taker(Protocol):
    """A thread that takes over connections."""

    def take(self, connection: Connection) -> None: ...


class Processor:
    """The requests of the connections that one thread serves. Only that thread calls its methods.

    ring: wakes the thread, unless it is the caller; may be called by any thread. converting:
    threads that take over connections with a request that takes long. administration: the thread
    that takes over connections that change topics."""

    def __init__(self, serving: Serving, selector: BaseSelector, ring: Callable[[], None]) -> None:
        self.converting: Iterator[Taker] | None = None
        self.administration: Taker | None = None
        self.owner = Owner(ring)
        self.served = ServedConnections(serving, selector)
        self.muted = Muted()
        self.now = serving.clock()  # the time after the last wait, request or write
        self.done: deque[Exchange] = deque()
        self.sending: deque[Connection] = deque()  # with writable channels
        self.waiting_for_memory: deque[Connection] = deque()  # their requests need it
        self.pending: deque[Connection] = deque()  # with bytes already received
        # Others need the memory of these responses, because their clients do not read.
        self.unread: deque[tuple[Connection, ResponseSend]] = deque()
        self._serving = serving
        self._broker = serving.broker
        self._clock = serving.clock
        self._ring = ring
        self._handshake = Handshake(serving, self.served)

    def _on_done(self, exchange: Exchange) -> None:
        """Called by any thread."""
        self.done.append(exchange)
        self._ring()

    def tell_timekeeper(self) -> None:
        """Wakes the thread that keeps time by the next deadline, because there may be a new one."""
        self._serving.wake_timekeeper(self._broker.purgatory.next_deadline)

    # --- reading and handling

    def read_one(self, connection: Connection) -> None:
        """Reads a request, and answers it if that can be done at once."""
        self.served.guarded(connection, self.serve)
        self.send_some()

    def send_some(self) -> None:
        """Makes one write of a response per new request."""
        if self.done:
            self.begin_sends()
        if self.sending:
            self.send_for(0.0)

    def read_pending(self) -> None:
        """Handles arrived requests: one of each connection, and more while there is time."""
        until = self.now + TURN
        while self.pending:
            for _ in range(len(self.pending)):
                self.read_one(self.pending.popleft())
            if self.now >= until:
                return

    def takes_more(self, connection: Connection) -> None:
        connection.waits_to_write = False
        self._serving.unread.release(connection.place)
        self.served.watch(connection)
        self.sending.append(connection)

    def serve(self, connection: Connection) -> None:
        """Reads a request and handles it, or gives it to another thread. A connection from another
        thread comes with its request. It gets an exchange, which this thread owns."""
        frame, client = connection.frame, connection.client
        if frame is None:
            if connection.exchange is not None or connection.is_muted:
                self._read_ahead(connection)
                return
            if connection.in_handshake and not self._handshake.advance(connection):
                return
            try:
                frame = connection.read()
            except NOT_NOW:
                frame = None
            connection.last_activity = self.now
            if frame is None:
                self._wait_for_rest(connection)
                return
            connection.request_started = None
            api, thread = bytes(frame[:2]), None
            if connection.authenticates:
                pass  # it stays until its client is known
            elif api in ADMINISTRATIVE:
                thread = self.administration
            elif self.converting and (
                client.is_converting
                or (
                    (api in OF_RECORDS or len(frame) > LARGE_SIZE)
                    and self._broker.takes_long(frame)
                )
            ):
                thread = next(self.converting)
            if thread is not None:
                self._move(connection, frame, thread)
                return
        incoming = connection.incoming
        if incoming.is_begun and not incoming.memory.may_be_handled():
            connection.flush()
            connection.frame = frame
            self.served.watch(connection, reads=False)
            self.waiting_for_memory.append(connection)
            return
        connection.frame = None
        exchange = self._broker.handle(client, frame, self.now, None, self.owner)
        connection.exchange = exchange
        if exchange.is_done:
            self._write(connection)
        else:
            self._wait_for_response(connection, exchange)
        if connection.waits_for_more and (connection.exchange or not connection.ahead):
            connection.flush()

    def _move(self, connection: Connection, frame: memoryview, thread: Taker) -> None:
        """Gives a connection, with its request, to another thread."""
        connection.flush()
        connection.frame = frame
        self.served.leave(connection)
        thread.take(connection)

    def _wait_for_response(self, connection: Connection, exchange: Exchange) -> None:
        """Waits for an exchange that is not done yet. Releases its request's memory if the exchange
        no longer needs it, and counts the request's elements otherwise."""
        if not exchange.has_request:
            connection.incoming.release()
        elif not connection.incoming.memory.charge(exchange.request.elements):
            self._broker.hurry(exchange)
        exchange.on_done = self._on_done
        if exchange.is_done:  # by another thread, perhaps before `on_done` was set
            self._on_done(exchange)
        self.now = self._clock()
        self.served.watch(connection)
        self.tell_timekeeper()

    def _wait_for_rest(self, connection: Connection) -> None:
        """Waits until a request is complete, or until there is memory for its rest. Its time runs
        while it keeps others from memory, or while its client is not known."""
        connection.flush()
        incoming = connection.incoming
        has_space = incoming.space() is not None
        if not (has_space or incoming.memory.taken or connection.authenticates):
            connection.request_started = None
        elif incoming.is_begun and connection.request_started is None:
            connection.request_started = self.now
        self.served.watch(connection, reads=has_space)
        if not has_space:
            self.waiting_for_memory.append(connection)

    def _read_ahead(self, connection: Connection) -> None:
        """Handles an arrival before the last response is sent, or while the client is muted. It is
        the next request, which must wait, or the end of the connection."""
        connection.check_open()
        self.served.watch(connection, reads=False)

    # --- sending

    def begin_sends(self) -> None:
        while self.done:
            exchange = self.done.popleft()
            connection = self.served.of(exchange.client.id)
            if connection is None or connection.exchange is not exchange:
                continue
            if connection.send is None:  # otherwise it is queued for sending already
                self.served.guarded(connection, self._write)

    def send_for(self, seconds: float) -> None:
        """Makes one write for each connection with bytes to send, in turns. At least one in all."""
        until = self.now + seconds
        while self.sending:
            connection = self.sending.popleft()
            if connection.send is not None:
                self.served.guarded(connection, self._write)
            if self.now >= until:
                return

    def _write(self, connection: Connection) -> None:
        """The exchange is done. Sends its response, or more of it."""
        send = connection.send
        if send is None:
            assert connection.exchange is not None
            send = connection.send = connection.exchange.send
            if send is None:  # its client expects no response
                self.now = self._clock()
                self._finish(connection, self.now)
                return
        more = connection.waits_for_more = connection.goes_on if connection.ahead else False
        size, until, before = WRITE_BUDGET, inf, -inf
        while True:  # fills the socket's buffer while the data is in the CPU's cache
            written = send.write_to(connection.channel, size, more=more)
            now = self.now = self._clock()
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
            self.sending.append(connection)
        else:
            connection.waits_to_write = True
            self.served.watch(connection, reads=False)
            self._wait_for_reader(connection, send)

    def _wait_for_reader(self, connection: Connection, send: ResponseSend) -> None:
        """The client does not read now. It holds its response, and no longer its request."""
        connection.incoming.release()
        close = partial(self._on_unread, connection, send)
        self._serving.unread.hold(connection.place, send.in_memory, close)
        self.end_unread()

    def _on_unread(self, connection: Connection, send: ResponseSend) -> None:
        """Called by any thread."""
        self.unread.append((connection, send))
        self._ring()

    def end_unread(self) -> None:
        """Closes connections whose responses were not read, and are in others' way."""
        while self.unread:
            connection, send = self.unread.popleft()
            if connection.send is send and connection.waits_to_write:  # its client reads nothing
                self.served.guarded(connection, self.served.end_unread)

    def _finish(self, connection: Connection, now: float) -> None:
        """Ends the exchange. The next request may come."""
        exchange = connection.exchange
        assert exchange is not None
        connection.exchange = connection.send = None
        self._broker.finished(exchange, now)
        if exchange.errors or request_log.LOG.logger.isEnabledFor(DEBUG):
            request_log.log_response(exchange, now)
        if exchange.close_after_reply:
            self.served.close(connection, exchange.end, exchange.why)
            return
        incoming = connection.incoming
        if incoming.is_begun or incoming.memory.taken:  # few requests need it
            incoming.release()
        if connection.authenticates and connection.client.access is not None:
            self._handshake.settle(connection)
        connection.request_started = now if connection.authenticates else None
        if exchange.throttle:
            self._mute(connection, exchange.now + exchange.throttle)
        elif connection.interest != EVENT_READ or connection.ahead or connection.is_tls:
            self._listen_to(connection)

    # --- waiting for the next request

    def _mute(self, connection: Connection, until: float) -> None:
        """Handles no request of the connection until that time of the clock."""
        connection.mute()
        self.muted.add(connection.client.id, until)
        self.served.watch(connection)

    def unmute(self, now: float) -> None:
        for number in self.muted.over(now):
            connection = self.served.of(number)
            if connection is not None:
                connection.is_muted, connection.last_activity = False, now
                self.served.guarded(connection, self._listen_to)

    def _listen_to(self, connection: Connection) -> None:
        """Waits for its next request. Its bytes may be here already, or be held by TLS."""
        self.served.watch(connection)
        if connection.ahead or (connection.is_tls and has_pending(connection.channel)):
            self.pending.append(connection)
