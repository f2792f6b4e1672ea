"""The server: everything that waits. Listens, reads requests, sends answers, knows the time.

One thread accepts. Network threads have a selector and their connections each, and work on the
requests that they read; a conversion's native calls run without the interpreter's lock, so that two
threads convert on two cores. The connections of clients for whom records are converted go over to
converting threads with their first such request, so that nobody else waits behind them.

A connection's thread owns its exchange from the request's last byte to the answer's. What happens
to an exchange elsewhere is posted to its thread, which works on it for a bounded time in each turn,
gives each connection that has an answer under way one write at a time, and looks for new requests
in between.

Not here: what requests do (broker.py), the state of a connection (connection.py), what clients may
take (limits.py)."""

import logging
import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count, cycle
from math import inf
from selectors import EVENT_READ, EVENT_WRITE
from struct import Struct
from threading import Thread, get_ident
from types import TracebackType
from typing import Final, Self

from downconvert.broker.handlers.sasl import REQUEST_SIZE_MAX
from downconvert.broker.wire.schemas import ApiKey
from records import RecordsError

from .broker import Broker
from .connection import Connection, ConnectionEndedError, Incoming
from .conversions import magic_of
from .errors import BadRequestError
from .exchange import Client, Exchange
from .limits import Admission, Limits, RequestMemory
from .maintenance import MaintenanceThread
from .owner import Owner
from .tls import WANTS_READ, WANTS_WRITE, has_pending, wrap

LOG: Final = logging.getLogger("broker")
BACKLOG: Final = 1024
SWEEP: Final = 1.0  # seconds between looks for connections that have taken too long
TURN: Final = 0.0005  # seconds of sending, or of working, before looking for new requests
SOON: Final = 0.002  # seconds: selectors wait for whole milliseconds, which is too long for less
HUNGRY: Final = 0.01  # seconds until who found no memory looks again
TOO_MANY_FILES: Final = 0.05  # seconds until the next try to accept
API: Final = Struct(">hh")  # what a request begins with: its key, and its version
NOT_NOW: Final = (BlockingIOError, InterruptedError, WANTS_READ)


class Clock:
    """Seconds since the epoch when it was made, and as many later as have passed; never goes back,
    also where the system's clock is set."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._epoch + time.monotonic()

    def shift(self) -> float:
        """By how many seconds the system's clock is ahead, for it was set."""
        return time.time() - self()


class Wake:
    """Wakes a thread that waits in its selector. Any thread may ring, any number of times."""

    def __init__(self) -> None:
        self._is_rung = False
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)

    def ring(self) -> None:
        if self._is_rung:
            return
        self._is_rung = True
        with suppress(OSError):  # it has been rung often enough, or nobody waits any more
            self._writer.send(b"!")

    def hear(self) -> None:
        """Whoever calls it looks for everything after that, not before."""
        with suppress(*NOT_NOW):
            while self.reader.recv(1024):
                pass
        # Only now: a byte of who rings from here on stays, and wakes.
        self._is_rung = False

    def close(self) -> None:
        self.reader.close()
        self._writer.close()


class Server:
    """A broker behind a listening socket, from `start` to `stop`.

    listen: host and port; port 0 is any that is free. advertise: the host and port that clients
    are told to come to; None: those that each came to. tls: a context of tls.server_context.
    on_tick: is called with the time about once a second. OSError where it cannot listen."""

    def __init__(
        self,
        broker: Broker,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        *,
        advertise: tuple[str, int] | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        network_threads: int = 2,
        on_tick: Callable[[float], None] | None = None,
    ) -> None:
        self.broker = broker
        self.limits = limits or Limits()
        self.clock = Clock()
        self.admission = Admission(self.limits)
        self.memory = RequestMemory(self.limits.requests_memory)
        self.on_tick = on_tick
        self._listen = listen
        self._advertise = advertise
        self._tls = tls
        self._converting = [_NetworkThread(self, f"converting-{n}") for n in range(network_threads)]
        self._network = [
            _NetworkThread(self, f"network-{n}", self._converting) for n in range(network_threads)
        ]
        self.timekeeper = self._network[0]  # tells who is late
        self.caretaker = self._converting[0]  # calls `on_tick`, which may take its time
        cleans_up = broker.config.is_writable and broker.config.cleans_up
        self._maintenance = MaintenanceThread(broker) if cleans_up else None
        self._accepting = Thread(target=self._accept, name="acceptor", daemon=True)
        self._wake = Wake()
        self._ids = count(1)
        self._stopping = False
        self._listener: socket.socket | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens at."""
        assert self._listener is not None, "the server has not been started"
        host, port = self._listener.getsockname()[:2]
        return host, port

    def start(self) -> None:
        """Returns when clients can connect."""
        host, port = self._listen
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._listener.setblocking(False)
        for thread in self._threads:
            thread.start()
        self._accepting.start()
        if self._maintenance is not None:
            self._maintenance.start()

    def stop(self) -> None:
        """Takes no more connections and requests, finishes what is under way for a few seconds."""
        self._stopping = True
        self._wake.ring()
        if self._maintenance is not None:
            self._maintenance.stop()
        if self._accepting.ident is not None:
            self._accepting.join()
        self.timekeeper = self._converting[0]  # which outlives the others
        self.timekeeper.wake_up()
        for threads in (self._network, self._converting):  # they hand over until they have ended
            for thread in threads:
                thread.stop()
            for thread in threads:
                thread.join()
        self._wake.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _threads(self) -> "list[_NetworkThread]":
        return self._network + self._converting

    def _accept(self) -> None:
        assert self._listener is not None
        threads = cycle(self._network)
        with self._listener as listener, selectors.DefaultSelector() as selector:
            selector.register(listener, EVENT_READ)
            selector.register(self._wake.reader, EVENT_READ)
            while not self._stopping:
                selector.select()
                try:
                    channel, address = listener.accept()
                except NOT_NOW:
                    continue
                except OSError as error:  # too many files, or the client has gone
                    LOG.warning("a connection is not taken: %s", error)
                    time.sleep(TOO_MANY_FILES)
                    continue
                if not self.admission.admit(address[0]):
                    LOG.info("%s has, or all have, too many connections", address[0])
                    channel.close()
                    continue
                try:
                    connection = self._connection(channel, address[0])
                except Exception as error:
                    if not isinstance(error, OSError):  # which says that the client has gone
                        LOG.exception("a defect: %s is not taken", address[0])
                    channel.close()
                    self.admission.dismiss(address[0])
                else:
                    next(threads).take(connection)

    def _connection(self, channel: socket.socket, address: str) -> Connection:
        channel.setblocking(False)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = self._advertise or channel.getsockname()[:2]
        client = Client(next(self._ids), address, host, port)
        authenticates = self.broker.credentials is not None
        size_max = self.limits.request_size
        incoming = Incoming(
            min(size_max, REQUEST_SIZE_MAX) if authenticates else size_max, self.memory
        )
        connection = Connection(client, channel, incoming, self.clock())
        connection.authenticates = authenticates
        if self._tls is not None:
            connection.channel = wrap(self._tls, channel)
            connection.shakes_hands = True
        if authenticates or connection.shakes_hands:
            connection.begun = connection.moved
        return connection


class _NetworkThread:
    """A selector, and the connections that it serves.

    helpers: threads to which connections go once records are converted for them."""

    def __init__(self, server: Server, name: str, helpers: "list[_NetworkThread] | None" = None):
        self._server = server
        self._broker = server.broker
        self._clock = server.clock
        self._helpers = cycle(helpers) if helpers else None
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._selector = selectors.DefaultSelector()
        self._wake = Wake()
        self._owner = Owner(self._ring)
        self._new: deque[Connection] = deque()
        self._done: deque[Exchange] = deque()
        self._sending: deque[Connection] = deque()  # those whose channels take more
        self._hungry: deque[Connection] = deque()  # those for whose requests there is no memory
        self._pending: deque[Connection] = deque()  # those of which bytes have been read already
        self._connections: dict[int, Connection] = {}
        self._until = 0.0  # when it looks at the clock next, at the latest
        self._stop_by: float | None = None
        self._next_sweep = 0.0

    # --- what other threads call

    def start(self) -> None:
        self._thread.start()

    def take(self, connection: Connection) -> None:
        self._new.append(connection)
        self._wake.ring()

    def be_there(self, deadline: float) -> None:
        """Something is due then."""
        if deadline < self._until:
            self._ring()

    def wake_up(self) -> None:
        """It looks at everything again."""
        self._wake.ring()

    def stop(self) -> None:
        self._stop_by = self._clock() + self._server.limits.stop
        self._wake.ring()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _on_done(self, exchange: Exchange) -> None:
        self._done.append(exchange)
        self._ring()

    def _ring(self) -> None:
        """Something has been put down for it."""
        if get_ident() != self._thread.ident:
            self._wake.ring()

    # --- the thread

    def _run(self) -> None:
        self._selector.register(self._wake.reader, EVENT_READ)
        while not self._is_over():
            self._turn()
        while self._new:
            self._welcome(self._new.popleft())
        for connection in list(self._connections.values()):
            self._close(connection)
        self._selector.close()
        self._wake.close()

    def _is_over(self) -> bool:
        if self._stop_by is None:
            return False
        for connection in list(self._connections.values()):
            if connection.exchange is None:
                self._close(connection)
        return not (self._connections or self._new) or self._clock() >= self._stop_by

    def _turn(self) -> None:
        now = self._clock()
        until = self._next_sweep
        if self is self._server.timekeeper:
            self._until = inf
            until = min(until, self._keep_time(now) or until)
        self._until = until
        self._begin_sends()
        for key, events in self._selector.select(self._timeout(until - now)):
            connection = key.data
            if connection is None:
                self._wake.hear()
            elif events & EVENT_WRITE and connection.send is not None:
                self._guarded(connection, self._takes_more)
            else:
                self._guarded(connection, self._read)
                self._begin_sends()
                self._send_for(0.0)  # as many writes of answers under way as new requests
        self._work()
        for connections in (self._hungry, self._pending):
            for _ in range(len(connections)):
                self._guarded(connections.popleft(), self._read)
        while self._new:
            self._welcome(self._new.popleft())
        self._begin_sends()
        self._send_for(TURN)
        if now >= self._next_sweep:
            self._sweep(now)
            self._next_sweep = now + SWEEP

    def _timeout(self, left: float) -> float:
        if self._sending or self._new or self._pending or self._owner.has_work or left < SOON:
            return 0.0
        return min(left, HUNGRY) if self._hungry else left

    def _keep_time(self, now: float) -> float | None:
        """When something is late next; None: nothing waits, or that cannot be told."""
        try:
            return self._broker.keep_time(now)
        except Exception:
            LOG.exception("a defect in what is done by the clock")
            return None

    def _work(self) -> None:
        """Does what has come due for the exchanges of this thread for a while, and one step of what
        takes several."""
        if not self._owner.has_work:
            return
        now = self._clock()
        until = now + TURN
        while now < until and self._broker.run_due(self._owner, now):
            now = self._clock()
        self._broker.run_turn(self._owner, now)
        self._tell_timekeeper()  # who has been worked on may wait again

    def _tell_timekeeper(self) -> None:
        deadline = self._broker.purgatory.next_deadline()
        if deadline is not None:
            self._server.timekeeper.be_there(deadline)

    def _welcome(self, connection: Connection) -> None:
        self._connections[connection.client.id] = connection
        if connection.frame is not None:
            self._guarded(connection, self._handle)
        else:
            self._guarded(connection, self._look_for)

    def _takes_more(self, connection: Connection) -> None:
        connection.waits_to_write = False
        self._look_for(connection)
        self._sending.append(connection)

    def _read(self, connection: Connection) -> None:
        if connection.exchange is not None:
            self._read_behind(connection)
            return
        if connection.shakes_hands and not self._shakes_hands(connection):
            return
        frame = None
        with suppress(*NOT_NOW):
            frame = connection.read()
        now = self._clock()
        connection.moved = now
        if frame is None:
            if connection.begun is None:
                connection.begun = now
            if connection.incoming.space() is None:
                self._look_for(connection, reads=False)
                self._hungry.append(connection)
            else:
                self._look_for(connection)
            return
        connection.begun = None
        connection.frame = frame
        if self._helpers is not None and not connection.authenticates and _converts(frame):
            self._leave(connection)
            next(self._helpers).take(connection)
        else:
            self._handle(connection)

    def _handle(self, connection: Connection) -> None:
        """Takes the request: from here on there is an exchange, and it is this thread's."""
        frame, connection.frame = connection.frame, None
        assert frame is not None
        connection.exchange = self._broker.handle(
            connection.client, frame, self._clock(), self._on_done, self._owner
        )
        if not connection.exchange.is_done:
            self._look_for(connection)
            self._tell_timekeeper()

    def _read_behind(self, connection: Connection) -> None:
        """Bytes behind a request that is not answered: the next request, which waits where it is;
        or the end of the connection."""
        if type(connection.channel) is socket.socket:
            with suppress(*NOT_NOW):
                if not connection.channel.recv(1, socket.MSG_PEEK):
                    raise ConnectionEndedError
        self._look_for(connection, reads=False)

    def _shakes_hands(self, connection: Connection) -> bool:
        try:
            connection.channel.do_handshake()
        except WANTS_READ:
            connection.waits_to_write = False
        except WANTS_WRITE:
            connection.waits_to_write = True
        else:
            connection.waits_to_write = connection.shakes_hands = False
            connection.begun = connection.begun if connection.authenticates else None
        self._look_for(connection)
        return not connection.shakes_hands

    def _begin_sends(self) -> None:
        while self._done:
            exchange = self._done.popleft()
            connection = self._connections.get(exchange.client.id)
            if connection is None or connection.exchange is not exchange:
                continue
            connection.send = exchange.send
            if connection.send is None:
                self._guarded(connection, self._finish)
            else:
                self._guarded(connection, self._write)

    def _send_for(self, seconds: float) -> None:
        """One write for each connection that has something to send, by turns; one at least."""
        until = self._clock() + seconds
        while self._sending:
            connection = self._sending.popleft()
            if connection.send is not None:
                self._guarded(connection, self._write)
            if self._clock() >= until:
                return

    def _write(self, connection: Connection) -> None:
        send = connection.send
        assert send is not None
        written = send.write_to(connection.channel)
        if written:
            connection.moved = self._clock()
        if send.completed:
            self._finish(connection)
        elif written:
            self._sending.append(connection)
        else:
            connection.waits_to_write = True
            self._look_for(connection, reads=False)

    def _finish(self, connection: Connection) -> None:
        """The exchange is over: the next request may come."""
        exchange = connection.exchange
        assert exchange is not None
        connection.exchange = connection.send = None
        self._broker.finished(exchange)
        if exchange.hangs_up:
            raise ConnectionEndedError
        connection.incoming.release()
        if connection.authenticates and connection.client.principal is not None:
            connection.authenticates = False
            connection.incoming.size_max = self._server.limits.request_size
        connection.begun = self._clock() if connection.authenticates else None
        self._look_for(connection)
        if has_pending(connection.channel):
            self._pending.append(connection)

    def _look_for(self, connection: Connection, *, reads: bool = True) -> None:
        """Has the selector look for what the connection waits for."""
        interest = EVENT_READ if reads and connection.send is None else 0
        interest |= EVENT_WRITE if connection.waits_to_write else 0
        if interest == connection.interest:
            return
        if not interest:
            self._selector.unregister(connection.channel)
        elif connection.interest:
            self._selector.modify(connection.channel, interest, connection)
        else:
            self._selector.register(connection.channel, interest, connection)
        connection.interest = interest

    # --- ends

    def _guarded(self, connection: Connection, step: Callable[[Connection], None]) -> None:
        """A step of one connection: whatever goes wrong is the end of that one alone.

        Nothing happens to one that has been closed or handed over since it was noted down: events
        of a turn are as old as the turn."""
        if self._connections.get(connection.client.id) is not connection:
            return
        try:
            step(connection)
        except NOT_NOW:
            pass
        except (ConnectionEndedError, ConnectionError, TimeoutError):
            self._close(connection)
        except (BadRequestError, OSError) as error:  # TLS errors are OSErrors
            self._close(connection, logging.INFO, str(error))
        except RecordsError as error:
            self._close(connection, logging.WARNING, f"its answer cannot be finished: {error}")
        except Exception:
            LOG.exception("a defect: %s is disconnected", connection.client.address)
            self._close(connection)

    def _sweep(self, now: float) -> None:
        """Closes connections that have taken too long; looks at the system's clock."""
        self._broker.time_of_day.shift = self._clock.shift()
        limits = self._server.limits
        for connection in list(self._connections.values()):
            waits = connection.exchange is not None and connection.send is None
            if connection.begun is not None and now - connection.begun > limits.request:
                why = f"no whole request within {limits.request:g} s"
                self._close(connection, logging.INFO, why)
            elif not waits and now - connection.moved > limits.idle:
                self._close(connection)
        if self._server.on_tick is not None and self is self._server.caretaker:
            try:
                self._server.on_tick(now)
            except Exception:
                LOG.exception("a defect in what is done every second")

    def _leave(self, connection: Connection) -> None:
        """Another thread, or none, serves it from now on."""
        del self._connections[connection.client.id]
        connection.waits_to_write = False
        if connection.interest:
            self._selector.unregister(connection.channel)
            connection.interest = 0

    def _close(self, connection: Connection, level: int = logging.DEBUG, why: str = "gone") -> None:
        LOG.log(level, "%s is disconnected: %s", connection.client.address, why)
        exchange, connection.exchange = connection.exchange, None
        connection.send = connection.frame = None
        try:
            self._leave(connection)
            if exchange is not None:
                self._broker.finished(exchange)
        finally:  # what it took is others' again, whatever else is wrong
            connection.incoming.release()
            connection.channel.close()
            self._server.admission.dismiss(connection.client.address)


def _converts(frame: memoryview) -> bool:
    """Whether a request is of a client for whom records are converted."""
    if len(frame) < API.size:
        return False
    key, version = API.unpack_from(frame)
    return key == ApiKey.Fetch and version >= 0 and magic_of(version) is not None
