"""The server: a broker that listens at a socket.

One thread accepts. Each network thread has a selector and its own connections, and works on the
requests that it reads. The kernel converts without the interpreter's lock, so two threads convert
on two cores. After a response with more than 64 KiB of converted records, a connection moves to a
converting thread, so that no other client waits for its conversions. It also moves there with a
request of more than 64 KiB, except a produce, because parsing may take long. With its first request
that changes topics, it moves to the thread for administration, because such requests write and sync
files for each partition.

Not here: the network threads (network_thread.py), requests (broker.py), the limits of clients
(limits.py)."""

import logging
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial
from itertools import count, cycle
from math import inf
from selectors import EVENT_READ
from threading import Thread
from typing import Final

from downconvert.broker.handlers.sasl import REQUEST_SIZE_MAX
from downconvert.serving.lifecycle import Startable
from downconvert.serving.limits import Limits
from downconvert.serving.places import NoPlaceError, Place, Places
from downconvert.serving.request_memory import LOGIN_PART, RequestMemory
from downconvert.serving.tls import wrap
from downconvert.serving.unread import UnreadResponses
from downconvert.storage.disk.open_files import connections_max
from records.logged import log_of

from .broker import Broker
from .endings import End
from .exchange import Client
from .network.clock import Clock
from .network.connection import Connection, Incoming
from .network.network_thread import NetworkThread
from .network.served_connections import NOT_NOW
from .network.serving import Serving
from .network.wake import Wake
from .operating.disk_room import DiskRoom
from .operating.log_files import LogFiles
from .operating.maintenance import MaintenanceThread
from .operating.request_log import log_end

LOG: Final = log_of(__name__)
BACKLOG: Final = 1024
TOO_MANY_FILES: Final = 0.05  # seconds until the next attempt to accept


class Server(Startable):
    """Serves a broker at a listening socket, from `start` to `stop`.

    listen: host and port; port 0 means any free port. advertise: the host and port in responses;
    None: the address that each client connected to. tls: a context of tls.server_context.
    network_threads: each additional thread makes small requests slower, because the threads share
    the interpreter's lock. converting_threads: for connections with large conversions, which
    release that lock. on_tick: called with the time about once a second. OSError: it cannot
    listen."""

    def __init__(
        self,
        broker: Broker,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        *,
        advertise: tuple[str, int] | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        network_threads: int = 1,
        converting_threads: int = 2,
        on_tick: Callable[[float], None] | None = None,
    ) -> None:
        self.broker = broker
        self.limits = limits or Limits()
        self.clock = Clock()
        self.places = Places()
        self._disk_room = DiskRoom(broker.topics.log_dir)
        self.memory = RequestMemory(self.limits.requests_memory)
        self._login_memory = RequestMemory(self.limits.requests_memory // LOGIN_PART)
        self.unread = UnreadResponses(self.limits.requests_memory)
        self._listen = listen
        self._advertise = advertise
        self.tls = tls  # may be replaced; then applies to new connections
        serving = Serving(
            broker, self.limits, self.memory, self.unread, self.clock, self._wake_timekeeper
        )
        self._administration = NetworkThread(serving, "administration")
        self._converting = [
            NetworkThread(serving, f"converting-{n}") for n in range(converting_threads)
        ]
        self._network = [NetworkThread(serving, f"network-{n}") for n in range(network_threads)]
        for thread in self._network + self._converting:
            thread.processor.administration = self._administration
        for thread in self._network:
            thread.processor.converting = cycle(self._converting)
        self._timekeeper = self._network[0]
        self._timekeeper.keeps_time = True
        ticks = self._converting[0].on_ticks  # may take long
        if on_tick is not None:
            ticks.append(on_tick)
        if broker.config.is_writable:
            ticks.append(LogFiles(broker).look)
        cleans_up = broker.config.is_writable and broker.config.cleans_up
        self._maintenance = MaintenanceThread(broker) if cleans_up else None
        self._accepting = Thread(target=self._accept, name="acceptor", daemon=True)
        self._wake = Wake()
        self._ids = count(1)
        self._stopping = False
        self._listener: socket.socket | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
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
        """Takes no more connections and requests, and finishes open requests for a few seconds."""
        self._stopping = True
        self._wake.ring()
        if self._maintenance is not None:
            self._maintenance.stop()
        if self._accepting.ident is not None:
            self._accepting.join()
        self._timekeeper = self._administration  # stops last
        self._timekeeper.keeps_time = True
        self._timekeeper.wake_up()
        # All stop at a time. They end in this order, because connections move only to later ones.
        threads: list[NetworkThread] = []
        for group in (self._network, self._converting, [self._administration]):
            for thread in group:
                thread.stop(threads)
            threads += group
        for thread in threads:
            thread.wake_up()
            thread.join()
        self._wake.close()
        self.broker.lines.write_omitted(inf)

    @property
    def is_alive(self) -> bool:
        """Whether all of its threads are running."""
        threads = [one.is_alive() for one in self._threads]
        return not self._stopping and self._accepting.is_alive() and all(threads)

    def unready(self) -> list[str]:
        """Reasons to send clients to another broker. Empty if there are none."""
        reasons = [] if self.is_alive else ["it is not running"]
        offline = self.broker.topics.log_dir.offline_reason
        if offline is not None:
            reasons.append(f"its disk has failed: {offline}")
        full = self._disk_room.failure(self.clock())
        if full is not None:
            reasons.append(full)
        tokens = self.broker.guard.identities.tokens
        if tokens is not None and tokens.failure is not None:
            reasons.append(f"the keys of tokens: {tokens.failure}")
        return reasons

    @property
    def muted_clients(self) -> int:
        """The number of clients that are muted, because they exceeded their rate."""
        return sum(len(thread.processor.muted.ends) for thread in self._threads)

    @property
    def _threads(self) -> list[NetworkThread]:
        return [*self._network, *self._converting, self._administration]

    def _wake_timekeeper(self, deadline: float) -> None:
        self._timekeeper.wake_by(deadline)

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
                except OSError as error:  # too many files are open, or the client has gone
                    message = "a connection is not taken: %s"
                    now = self.clock()
                    self.broker.lines.write(LOG, now, logging.WARNING, "accept", message, error)
                    time.sleep(TOO_MANY_FILES)
                    continue
                try:
                    place = self._place(address[0])
                except NoPlaceError as error:
                    client, now = Client(0, address[0]), self.clock()
                    log_end(self.broker.lines, client, End.REFUSED, str(error), 0.0, now)
                    self.broker.metrics.ended(End.REFUSED)
                    channel.close()
                    continue
                thread = next(threads)
                try:
                    connection = self._connection(channel, place)
                except Exception as error:
                    if not isinstance(error, OSError):  # an OSError: the client has gone
                        LOG.exception("a defect: %s is not taken", address[0])
                    channel.close()
                    place.release()
                else:
                    place.on_evicted = partial(thread.evict, connection)
                    thread.take(connection)

    def _place(self, address: str) -> Place:
        """The place of a connection. NoPlaceError: it is refused."""
        if not self.broker.guard.access.admits(address):
            raise NoPlaceError("its network is not allowed")
        limits = self.limits
        most = connections_max(limits.connections)
        return self.places.take(address, most, limits.connections_per_address)

    def _connection(self, channel: socket.socket, place: Place) -> Connection:
        channel.setblocking(False)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = self._advertise or channel.getsockname()[:2]
        client = Client(next(self._ids), place.address, host, port)
        authenticates = self.broker.guard.find(place.address) is None
        size_max, memory = self.limits.request_size, self.memory
        if authenticates:
            size_max, memory = min(size_max, REQUEST_SIZE_MAX), self._login_memory
        incoming = Incoming(size_max, memory.of(place.address))
        connection = Connection(client, channel, incoming, place, self.clock())
        connection.authenticates = authenticates
        if self.tls is not None:
            connection.channel = wrap(self.tls, channel)
            connection.is_tls = connection.in_handshake = True
        if authenticates or connection.in_handshake:
            connection.request_started = connection.last_activity
        if not authenticates:
            place.settle()
        return connection
