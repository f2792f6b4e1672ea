"""The server: everything that waits. Listens, reads requests, sends answers, knows the time.

One thread accepts. Network threads have a selector and their connections each; a request is worked
on by the thread that reads it, and a conversion's native calls run without the interpreter's lock,
so that two threads convert on two cores. A thread gives each connection that has an answer under
way one write at a time, and looks for new requests in between.

Not here: what requests do (broker.py), the state of a connection (connection.py), what clients may
take (limits.py)."""

import logging
import selectors
import socket
import time
from collections import deque
from contextlib import suppress
from itertools import count, cycle
from selectors import EVENT_READ, EVENT_WRITE
from threading import Thread, get_ident
from types import TracebackType
from typing import Any, Final, Self

from broker.broker import Broker
from broker.connection import Connection, ConnectionEndedError, Incoming
from broker.errors import BadRequestError
from broker.exchange import Client, Exchange
from broker.limits import Admission, Limits, RequestMemory
from records import RecordsError

LOG: Final = logging.getLogger("broker")
BACKLOG: Final = 1024
SWEEP: Final = 1.0  # seconds between looks for connections that have been idle for too long
TURN: Final = 0.0005  # seconds of sending before looking for new requests
NOT_NOW: Final = (BlockingIOError, InterruptedError)


class Clock:
    """Seconds since the epoch; never goes back, also where the system's clock is set."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._epoch + time.monotonic()


class Wake:
    """Wakes a thread that waits in its selector. Any thread may ring, any number of times."""

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)

    def ring(self) -> None:
        with suppress(OSError):  # it has been rung often enough, or nobody waits any more
            self._writer.send(b"!")

    def hear(self) -> None:
        try:
            while self.reader.recv(1024):
                pass
        except NOT_NOW:
            pass

    def close(self) -> None:
        self.reader.close()
        self._writer.close()


class Server:
    """A broker behind a listening socket, from `start` to `stop`.

    listen: host and port; port 0 is any that is free. advertise: the host and port that clients
    are told to come to; None: those that each came to. OSError where it cannot listen."""

    def __init__(
        self,
        broker: Broker,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        *,
        advertise: tuple[str, int] | None = None,
        limits: Limits | None = None,
        network_threads: int = 2,
    ) -> None:
        self.broker = broker
        self.limits = limits or Limits()
        self.clock = Clock()
        self.admission = Admission(self.limits)
        self.memory = RequestMemory(self.limits.requests_memory)
        self._listen = listen
        self._advertise = advertise
        self._threads = [_NetworkThread(self, number) for number in range(network_threads)]
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

    def stop(self) -> None:
        """Takes no more connections and requests, finishes what is under way for a few seconds."""
        self._stopping = True
        self._wake.ring()
        if self._accepting.ident is not None:
            self._accepting.join()
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
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

    def _accept(self) -> None:
        assert self._listener is not None
        threads = cycle(self._threads)
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
                    time.sleep(0.05)
                    continue
                if not self.admission.admit(address[0]):
                    channel.close()
                    continue
                next(threads).take(self._connection(channel, address[0]))

    def _connection(self, channel: socket.socket, address: str) -> Connection:
        channel.setblocking(False)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = self._advertise or channel.getsockname()[:2]
        client = Client(next(self._ids), address, host, port)
        incoming = Incoming(self.limits.request_size, self.memory)
        return Connection(client, channel, incoming, self.clock())


class _NetworkThread:
    """A selector, and the connections that it serves."""

    def __init__(self, server: Server, number: int) -> None:
        self._server = server
        self._broker = server.broker
        self._clock = server.clock
        self._thread = Thread(target=self._run, name=f"network-{number}", daemon=True)
        self._selector = selectors.DefaultSelector()
        self._wake = Wake()
        self._new: deque[Connection] = deque()
        self._done: deque[Exchange] = deque()
        self._sending: deque[Connection] = deque()  # those whose channels take more
        self._connections: dict[int, Connection] = {}
        self._stop_by: float | None = None
        self._next_sweep = 0.0

    # --- what other threads call

    def start(self) -> None:
        self._thread.start()

    def take(self, connection: Connection) -> None:
        self._new.append(connection)
        self._wake.ring()

    def stop(self) -> None:
        self._stop_by = self._clock() + self._server.limits.stop
        self._wake.ring()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _on_done(self, exchange: Exchange) -> None:
        self._done.append(exchange)
        if get_ident() != self._thread.ident:
            self._wake.ring()

    # --- the thread

    def _run(self) -> None:
        self._selector.register(self._wake.reader, EVENT_READ)
        while not self._is_over():
            self._turn()
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
        return not self._connections or self._clock() >= self._stop_by

    def _turn(self) -> None:
        now = self._clock()
        deadline = self._broker.tick(now)
        self._begin_sends()
        until = min(self._next_sweep, deadline or self._next_sweep)
        timeout = 0.0 if self._sending else max(0.0, until - now)
        for key, events in self._selector.select(timeout):
            connection = key.data
            if connection is None:
                self._wake.hear()
            elif events & EVENT_WRITE:
                connection.waits_to_write = False
                self._sending.append(connection)
                self._look_for(connection)
            else:
                self._guarded(connection, self._read)
        while self._new:
            self._welcome(self._new.popleft())
        self._begin_sends()
        self._send_for(TURN)
        now = self._clock()
        if now >= self._next_sweep:
            self._sweep(now)
            self._next_sweep = now + SWEEP

    def _welcome(self, connection: Connection) -> None:
        connection.begun = None
        self._connections[connection.client.id] = connection
        self._look_for(connection)

    def _read(self, connection: Connection) -> None:
        if connection.exchange is not None:
            # The next request waits; it may also be the end of the connection.
            if not connection.channel.recv(1, socket.MSG_PEEK):
                raise ConnectionEndedError
            self._look_for(connection, reads=False)
            return
        try:
            frame = connection.read()
        except NOT_NOW:
            frame = None
        now = self._clock()
        connection.moved = now
        if frame is None:
            if connection.begun is None:
                connection.begun = now
            return
        connection.begun = None
        connection.exchange = self._broker.handle(connection.client, frame, now, self._on_done)

    def _begin_sends(self) -> None:
        while self._done:
            exchange = self._done.popleft()
            connection = self._connections.get(exchange.client.id)
            if connection is None or connection.exchange is not exchange:
                continue
            if exchange.hangs_up:
                self._close(connection)
            elif exchange.send is None:
                self._finish(connection)
            else:
                connection.send = exchange.send
                self._sending.append(connection)

    def _send_for(self, seconds: float) -> None:
        """One write for each connection that has something to send, by turns."""
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
        if send.completed:
            connection.moved = self._clock()
            self._finish(connection)
        elif written:
            connection.moved = self._clock()
            self._sending.append(connection)
        else:
            connection.waits_to_write = True
            self._look_for(connection, reads=False)

    def _finish(self, connection: Connection) -> None:
        """The exchange is over: the next request may come."""
        if connection.exchange is not None:
            self._broker.metrics.sent(connection.exchange)
        connection.exchange = connection.send = None
        connection.incoming.release()
        self._look_for(connection)

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

    def _guarded(self, connection: Connection, step: Any) -> None:
        """A step of one connection: whatever goes wrong is the end of that one alone."""
        try:
            step(connection)
        except NOT_NOW:
            pass
        except (ConnectionEndedError, ConnectionError, TimeoutError):
            self._close(connection)
        except BadRequestError as error:
            self._close(connection, f"no request: {error}")
        except RecordsError as error:
            self._close(connection, f"its answer could not be finished: {error}")
        except OSError as error:
            self._close(connection, str(error))
        except Exception:
            LOG.exception("a defect: %s is disconnected", connection.client.address)
            self._close(connection)

    def _sweep(self, now: float) -> None:
        """Closes connections that have taken too long."""
        limits = self._server.limits
        for connection in list(self._connections.values()):
            waits = connection.exchange is not None and connection.send is None
            if connection.begun is not None and now - connection.begun > limits.request:
                self._close(connection, f"no whole request within {limits.request:g} s")
            elif not waits and now - connection.moved > limits.idle:
                self._close(connection)

    def _close(self, connection: Connection, why: str = "") -> None:
        if self._connections.pop(connection.client.id, None) is None:
            return
        if why:
            LOG.warning("%s is disconnected: %s", connection.client.address, why)
        if connection.interest:
            self._selector.unregister(connection.channel)
        if connection.exchange is not None:
            self._broker.metrics.sent(connection.exchange)
        connection.send = connection.exchange = None
        connection.incoming.release()
        connection.channel.close()
        self._server.admission.dismiss(connection.client.address)
