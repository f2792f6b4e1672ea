"""The event loop of a gateway: listens, accepts clients, follows changes of the cluster's brokers.

Slow work, such as conversion, runs in threads (conversion_pool.py).

Not here: steps before a client's first request (reception.py), serving one connection
(connection.py), listening sockets (listeners.py)."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from math import inf
from threading import Lock, Thread
from typing import Any, Final, Protocol

from downconvert.access.identity import common_name
from downconvert.access.rights import ConfigError
from downconvert.gateway.figures import End
from downconvert.gateway.network.sockets.ended import (
    ConnectionEndedError,
    SilentBrokerError,
    UnreachableError,
)
from downconvert.gateway.network.sockets.event_loop import EventLoop
from downconvert.gateway.network.sockets.streams import Stream
from downconvert.gateway.session.exchanges import Ask
from downconvert.gateway.session.session import Session
from downconvert.gateway.session.shared import Shared
from downconvert.gateway.topology import BOOTSTRAP, Address
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.freed_memory import FreedMemory
from downconvert.serving.line_budget import SECOND
from downconvert.serving.places import Place, Places
from records.logged import log_of, with_log_fields

from .accepting import Accepting
from .cluster_broker import Cluster, ClusterBroker
from .connection import Connection
from .connection_log import log_defect, log_end
from .conversion_pool import TimedPool
from .handshake import Handshake, no_traceback_for_names
from .listeners import ListensFor, why
from .reception import Host, Reception

LOG: Final = log_of(__name__)
METADATA_VERSION: Final = 1  # the first that can ask for no topics
EXPECTED: Final = (ConnectionEndedError, BadRequestError, TimeoutError, UnreachableError, OSError)
RETRY_SECONDS: Final = 1.0  # until a silent cluster is asked again; doubled each time


class Owner(Host, Cluster, Protocol):
    """The parts of a gateway (server.py) that the loop needs."""

    places: Places
    listeners: ListensFor

    @property
    def shared(self) -> Shared: ...


class ServingLoop:
    """A thread with an event loop, its listeners and its connections."""

    def __init__(self, gateway: Owner) -> None:
        self._gateway = gateway
        self._loop = EventLoop()
        self._thread = Thread(target=with_log_fields(self._run), name="gateway", daemon=True)
        self._listeners: dict[int, list[Accepting]] = {}
        self._brokers: dict[int, ClusterBroker] = {}  # by node
        self.connections: set[Connection] = set()  # after their handshakes
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._reception = Reception(
            gateway, self._loop, self._stopping.is_set, self._spawn, self._begin
        )
        self._ready = Lock()
        self._failure: BaseException | None = None
        self._listening = asyncio.Lock()

    # --- methods for other threads

    def start(self) -> None:
        self._ready.acquire()
        self._thread.start()
        self._ready.acquire()
        if self._failure is not None:
            raise self._failure

    def ask_to_stop(self) -> None:
        with suppress(RuntimeError):  # the loop has ended by itself, and is closed
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._stopping.set)

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._stopping.is_set()

    @property
    def address(self) -> Address:
        return Address(*self._listeners[BOOTSTRAP][0].address)

    # --- the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            with no_traceback_for_names():
                self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        config = self._gateway.config
        try:
            self._listen(BOOTSTRAP, config.listen.port)
            self._gateway.topology.ports = config.ports(self.address.port)
        except (OSError, ConfigError) as error:
            self._failure = error
        finally:
            self._ready.release()
        if self._failure is None:
            background = [
                self._loop.create_task(one) for one in (self._refresh(), self._each_second())
            ]
            await self._stopping.wait()
            for task in background:
                task.cancel()
        await self._drain()
        self._gateway.lines.write_omitted(inf)
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest)

    async def _drain(self) -> None:
        for node_id in list(self._listeners):
            self._stop_listening(node_id)
        self._reception.close()
        for connection in list(self.connections):
            connection.finish()
        if self._tasks:
            timeout = self._gateway.config.limits.drain_timeout
            _, late = await asyncio.wait(self._tasks, timeout=timeout)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    # --- listeners

    def _listen(self, node_id: int, port: int) -> None:
        copies = self._gateway.listeners.copies(node_id, port)
        self._listeners[node_id] = [
            Accepting(self._loop, copy, partial(self._reception.accept, node_id)) for copy in copies
        ]

    def _stop_listening(self, node_id: int) -> None:
        for listener in self._listeners.pop(node_id):
            listener.close()
        self._gateway.listeners.close(node_id)

    async def _listen_for_nodes(self) -> None:
        """Opens a port for each broker of the cluster, and closes the ports of brokers that have
        gone."""
        async with self._listening:
            topology = self._gateway.topology
            nodes = topology.nodes if self._gateway.config.has_node_ports else {}
            for node_id in nodes.keys() - self._listeners.keys():
                try:
                    self._listen(node_id, topology.ports.of(node_id))
                    topology.unserved.pop(node_id, None)
                except (OSError, BadRequestError) as error:
                    reason = why(error) if isinstance(error, OSError) else str(error)
                    if isinstance(error, OSError):
                        reason = f"port {topology.ports.of(node_id)}: {reason}"
                    if topology.unserved.get(node_id) != reason:
                        LOG.error("cannot listen for broker %d: %s", node_id, reason)
                    topology.unserved[node_id] = reason
            for node_id in self._listeners.keys() - nodes.keys() - {BOOTSTRAP}:
                self._stop_listening(node_id)
            for node_id in topology.unserved.keys() - nodes.keys():
                topology.unserved.pop(node_id, None)

    async def _open_new_ports(self) -> None:
        """Opens the ports of new brokers, before a response that may name them is sent.

        UnreachableError: the response names a broker whose port cannot be bound. Later responses
        leave that broker out."""
        topology = self._gateway.topology
        if not self._gateway.config.has_node_ports:
            return
        unknown = topology.nodes.keys() - self._listeners.keys() - topology.unserved.keys()
        if unknown:
            await self._listen_for_nodes()
            unserved = {node_id: topology.unserved.get(node_id) for node_id in unknown}
            reasons = [f"broker {n}, {reason}" for n, reason in unserved.items() if reason]
            if reasons:
                raise UnreachableError(f"cannot listen for {'; '.join(reasons)}")

    async def _refresh(self) -> None:
        """Asks for the cluster's brokers periodically, even if no client does."""
        retry = RETRY_SECONDS
        while True:
            seconds = self._gateway.config.refresh_seconds
            try:
                security = self._gateway.config.security
                upstream = await self._broker(BOOTSTRAP).reach(security.credentials)
                try:
                    ask = Ask(ApiKey.Metadata, METADATA_VERSION, Message(topics=[]))
                    response = await upstream.ask(ask)
                finally:
                    upstream.close()
                if upstream.api_versions is not None:
                    self._gateway.topology.set_api_versions(upstream.api_versions)
                self._gateway.topology.set_brokers(response.brokers)
                await self._listen_for_nodes()
                if self._gateway.topology.nodes:
                    self._gateway.cluster_failure = None
                retry = RETRY_SECONDS
            except EXPECTED as error:
                if isinstance(error, SilentBrokerError):
                    self._gateway.report_broker(error.address, error.reason)
                self._gateway.cluster_failure = str(error) or type(error).__name__
                LOG.warning("the cluster cannot be asked for its brokers: %s", error)
                seconds, retry = min(retry, seconds), retry * 2
            except Exception:  # the next attempt is made in any case
                LOG.exception("a defect in asking the cluster for its brokers")
            await asyncio.sleep(seconds)

    async def _each_second(self) -> None:
        """Once a second, logs the number of omitted lines, reads changed certificates, and returns
        memory to the system after many clients have gone."""
        freed_memory = FreedMemory()
        while True:
            await asyncio.sleep(SECOND)
            try:
                self._gateway.lines.write_omitted(self._loop.time())
                self._gateway.certificates.read_if_changed()
                freed_memory.look(len(self._gateway.places), self._gateway.places.take_peak())
            except Exception:
                LOG.exception("a defect in the work that is done each second")

    # --- connections

    def _broker(self, node_id: int) -> ClusterBroker:
        if node_id not in self._brokers:
            self._brokers[node_id] = ClusterBroker(self._gateway, node_id, self._loop.time)
        return self._brokers[node_id]

    def _begin(self, client: Stream, place: Place, handshake: Handshake, reached: str) -> None:
        """Begins to serve a client after its handshake. The client reached this address."""
        gateway = self._gateway
        certificate = common_name(client.transport.get_extra_info("peercert"))
        tls = client.transport.get_extra_info("ssl_object")
        spoken = (tls.version() or "") if tls is not None else ""
        advertised = gateway.config.advertised_to(handshake.name, reached)
        session = Session(gateway.shared, place.address, advertised, certificate, spoken)
        session.identity.connection = handshake.connection
        connection = Connection(
            client,
            session,
            self._broker(handshake.node_id),
            time.time,
            self._open_new_ports,
            TimedPool(gateway.pool),
            gateway.counters,
            place,
        )
        self.connections.add(connection)
        connection.begin(self._resume)
        if self._stopping.is_set():
            connection.finish()

    def _resume(self, connection: Connection) -> None:
        """Runs a task for a connection until it is idle again."""
        if connection.has_gone:
            self._ended(connection, connection.gone())
        else:
            self._spawn(lambda: self._serve(connection))

    async def _serve(self, connection: Connection) -> None:
        try:
            is_idle = await connection.serve()
        except BaseException as error:
            self._ended(connection, error)
            if not isinstance(error, Exception):
                raise
        else:
            if not is_idle:
                self._ended(connection, None)

    def _ended(self, connection: Connection, error: BaseException | None) -> None:
        """Logs and counts the end of a connection, and releases its place. Must be called in the
        error's handler."""
        reason, text = End.DEFECT, "a defect of the gateway"
        if error is None:
            reason, text = End.STOPPED, "the gateway is closing"
        elif isinstance(error, asyncio.CancelledError):
            reason, text = End.STOPPED, "the gateway is closing, and it took too long"
        elif isinstance(error, EXPECTED):
            reason, text = connection.end(error), connection.why(error)
            if isinstance(silent := error.__cause__, SilentBrokerError):
                self._gateway.report_broker(silent.address, silent.reason)
        else:
            log_defect(self._gateway.lines, connection, self._loop.time())
        now = self._loop.time()
        log_end(self._gateway.lines, connection, reason, text, now - connection.started, now)
        self._gateway.counters.connection_ended(reason)
        self.connections.discard(connection)
        connection.place.release()
        connection.session.identity.release()

    def _spawn(self, start: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = self._loop.create_task(start())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
