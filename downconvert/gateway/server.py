"""Threads and the clock of a gateway: everything that waits.

Each worker is a thread with an event loop of its own, and all of them listen on the same ports. A
conversion's native calls run without the interpreter's lock, so that two workers serve two.

Not here: the sockets that they listen on (listeners.py)."""

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Final, Self

from downconvert.broker.errors import BadRequestError
from downconvert.broker.kept import KeepRoom
from downconvert.broker.wire.schemas import ApiKey, Message

from .census import ClientCensus
from .config import ConfigError, GatewayConfig
from .connection import Connection
from .conversion_pool import ConversionPool
from .exchanges import Ask
from .listeners import BACKLOG, Listeners, load_certificate, server_context, why
from .session import Session, Shared
from .streams import ConnectionEndedError, Stream
from .topology import BOOTSTRAP, Address, Ports, Topology
from .upstream import SilentBrokerError, UnreachableError, Upstream, reach, tls_context

LOG: Final = logging.getLogger("gateway")
METADATA_VERSION: Final = 1  # the first in which one can ask for no topics
EXPECTED: Final = (ConnectionEndedError, BadRequestError, TimeoutError, UnreachableError, OSError)
RETRY_SECONDS: Final = 1.0  # until a cluster that did not answer is asked again; then twice as long


class Gateway:
    """A running gateway. ConfigError: a certificate is of no use.

    `config` may be replaced: later connections go by the new one. What is more than that needs
    `reload`: certificates, and where the cluster is."""

    def __init__(self, config: GatewayConfig, *, workers: int = 2) -> None:
        self.config = config
        self.census = ClientCensus()
        self.pool = ConversionPool()
        self.budget = KeepRoom(config.limits.memory)
        ports = Ports(
            config.listen.port + 1 if config.node_port_first is None else config.node_port_first,
            config.node_ports,
        )
        self.topology = Topology(config.bootstrap, ports)
        self.failures = Counter[str]()  # by the broker's address: how often it did not answer
        self.cluster_failure: str | None = "the cluster has not answered yet"
        self.listeners = Listeners(config.listen.host, shares_ports=config.shares_ports)
        # Each is built once: that reads files, and takes milliseconds of everybody's.
        self.server_tls = server_context(config)
        self.cluster_tls = tls_context(config.security)
        self.connections = Counter[str]()  # by the clients' addresses
        self.lock = Lock()
        self._workers = [_Worker(self, number) for number in range(workers)]

    def start(self) -> None:
        """Returns when clients can connect. OSError: a port cannot be had."""
        try:
            for worker in self._workers:
                worker.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Lets requests under way be finished, for as long as the limits say."""
        for worker in self._workers:
            worker.ask_to_stop()
        for worker in self._workers:
            worker.join()
        self.listeners.close_all()
        self.pool.close()

    def reload(self, config: GatewayConfig) -> None:
        """Goes by other settings from the next connection on: addresses of the cluster,
        certificates, lists, limits. ConfigError: they cannot be, and nothing has changed.

        Where clients connect stays as it is until a restart."""
        if (config.tls_cert is None) != (self.server_tls is None):
            raise ConfigError("TLS of the listener begins or ends with a restart only")
        cluster_tls = tls_context(config.security)
        if self.server_tls is not None:
            load_certificate(self.server_tls, config)
        for name in ("listen", "node_port_first", "node_ports", "shares_ports"):
            if getattr(config, name) != getattr(self.config, name):
                LOG.warning("%s has changed: that needs a restart", name)
        self.cluster_tls = cluster_tls
        self.topology.bootstrap = config.bootstrap
        self.config = config

    @property
    def is_alive(self) -> bool:
        """Whether all of its threads run."""
        return all(worker.is_alive for worker in self._workers)

    def unready(self) -> list[str]:
        """Why clients should be sent to another gateway; nothing: they need not."""
        reasons = [] if self.is_alive else ["it is not running"]
        if self.cluster_failure is not None:
            reasons.append(f"the cluster: {self.cluster_failure}")
        return [*reasons, *(f"broker {n}: {why}" for n, why in self.topology.unserved.items())]

    def note(self, address: Address, reason: str | None) -> None:
        """A broker has answered, or has not, for this reason."""
        is_news = self.topology.note(address, has_failed=reason is not None)
        if reason is not None:
            with self.lock:
                self.failures[str(address)] += 1
        if is_news and reason is None:
            LOG.info("broker %s answers again", address)
        elif is_news:
            LOG.warning("broker %s: %s; others are tried before it", address, reason)

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
    def address(self) -> Address:
        """Where clients begin."""
        return self._workers[0].address

    @property
    def shared(self) -> Shared:
        """What new sessions share."""
        return Shared(self.config, self.topology, self.census, self.budget)

    def nodes_changed(self) -> None:
        """Some worker has learnt of other brokers: all listen for them."""
        for worker in self._workers:
            worker.call(worker.listen_for_nodes)

    def admit(self, address: str) -> str | None:
        """Counts a connection in; why it may not be, if it may not."""
        limits = self.config.limits
        if not self.config.access.admits(address):
            return "its network is not allowed"
        with self.lock:
            if self.connections.total() >= limits.connections:
                return f"there are {limits.connections} connections already"
            if self.connections[address] >= limits.connections_per_address:
                return f"it has {limits.connections_per_address} connections already"
            self.connections[address] += 1
        return None

    def dismiss(self, address: str) -> None:
        """Counts a connection out."""
        with self.lock:
            self.connections[address] -= 1
            if not self.connections[address]:
                del self.connections[address]


class _Worker:
    """A thread with an event loop, its listeners and its connections."""

    def __init__(self, gateway: Gateway, number: int) -> None:
        self._gateway = gateway
        self._number = number
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name=f"gateway-{number}", daemon=True)
        self._listeners: dict[int, list[asyncio.Server]] = {}
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._ready = Lock()
        self._failure: BaseException | None = None
        self._listening = asyncio.Lock()

    # --- what other threads call

    def start(self) -> None:
        self._ready.acquire()
        self._thread.start()
        self._ready.acquire()
        if self._failure is not None:
            raise self._failure

    def ask_to_stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def call(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a coroutine function on this worker's loop."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._spawn, start)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._stopping.is_set()

    @property
    def address(self) -> Address:
        host, port = self._listeners[BOOTSTRAP][0].sockets[0].getsockname()[:2]
        return Address(host, port)

    # --- the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        refreshing: asyncio.Task[None] | None = None
        try:
            await self._listen(BOOTSTRAP, self._gateway.config.listen.port)
        except (OSError, ConfigError) as error:
            self._failure = error
        finally:
            self._ready.release()
        if self._failure is None:
            if self._number == 0:
                refreshing = self._loop.create_task(self._refresh())
            await self._stopping.wait()
        if refreshing is not None:
            refreshing.cancel()
        await self._drain()

    async def _drain(self) -> None:
        for node_id in list(self._listeners):
            self._listen_no_more(node_id)
        for connection in list(self._connections):
            connection.finish()
        if self._tasks:
            timeout = self._gateway.config.limits.drain_timeout
            _, late = await asyncio.wait(self._tasks, timeout=timeout)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    # --- listeners

    async def _listen(self, node_id: int, port: int) -> None:
        copies = self._gateway.listeners.copies(node_id, port)
        self._listeners[node_id] = [
            await self._loop.create_server(
                lambda: _Client(self, node_id),
                sock=copy,
                ssl=self._gateway.server_tls,
                backlog=BACKLOG,
            )
            for copy in copies
        ]

    def _listen_no_more(self, node_id: int) -> None:
        for listener in self._listeners.pop(node_id):
            listener.close()
        self._gateway.listeners.close(node_id)

    async def listen_for_nodes(self) -> None:
        """Listens for the brokers that there are, and no longer for those that are gone."""
        async with self._listening:
            topology = self._gateway.topology
            nodes = topology.nodes
            for node_id in nodes.keys() - self._listeners.keys():
                try:
                    await self._listen(node_id, topology.ports.of(node_id))
                    topology.unserved.pop(node_id, None)
                except (OSError, BadRequestError) as error:
                    reason = why(error) if isinstance(error, OSError) else str(error)
                    if isinstance(error, OSError):
                        reason = f"port {topology.ports.of(node_id)}: {reason}"
                    if topology.unserved.get(node_id) != reason:
                        LOG.error("cannot listen for broker %d: %s", node_id, reason)
                    topology.unserved[node_id] = reason
            for node_id in self._listeners.keys() - nodes.keys() - {BOOTSTRAP}:
                self._listen_no_more(node_id)
            for node_id in topology.unserved.keys() - nodes.keys():
                topology.unserved.pop(node_id, None)

    async def _know_nodes(self) -> None:
        """Before an answer that may name brokers is sent. UnreachableError: it names one that
        cannot be reached here; the next answer will not."""
        topology = self._gateway.topology
        unknown = topology.nodes.keys() - self._listeners.keys() - topology.unserved.keys()
        if unknown:
            await self.listen_for_nodes()
            self._gateway.nodes_changed()
            unserved = {node_id: topology.unserved.get(node_id) for node_id in unknown}
            reasons = [f"broker {n}, {reason}" for n, reason in unserved.items() if reason]
            if reasons:
                raise UnreachableError(f"cannot listen for {'; '.join(reasons)}")

    async def _refresh(self) -> None:
        """Keeps up with brokers that come and go, also while no client asks."""
        retry = RETRY_SECONDS
        while True:
            seconds = self._gateway.config.refresh_seconds
            try:
                upstream = await self._reach(BOOTSTRAP)
                try:
                    ask = Ask(ApiKey.Metadata, METADATA_VERSION, Message(topics=[]))
                    answer = await upstream.ask(ask)
                finally:
                    upstream.close()
                self._gateway.topology.learn(answer.brokers)
                await self.listen_for_nodes()
                self._gateway.nodes_changed()
                if self._gateway.topology.nodes:
                    self._gateway.cluster_failure = None
                retry = RETRY_SECONDS
            except EXPECTED as error:
                if isinstance(error, SilentBrokerError):
                    self._gateway.note(error.address, str(error))
                self._gateway.cluster_failure = str(error) or type(error).__name__
                LOG.warning("the cluster cannot be asked for its brokers: %s", error)
                seconds, retry = min(retry, seconds), retry * 2
            await asyncio.sleep(seconds)

    # --- connections

    async def _reach(self, node_id: int) -> Upstream:
        gateway = self._gateway
        addresses = gateway.topology.addresses(node_id)
        try:
            return await reach(
                addresses,
                gateway.config,
                gateway.cluster_tls,
                gateway.note,
                pool=gateway.pool,
                budget=gateway.budget,
            )
        except UnreachableError as error:
            if node_id == BOOTSTRAP:
                gateway.cluster_failure = str(error)
            raise

    def accept(self, client: "_Client", node_id: int) -> None:
        peer, own = (client.transport.get_extra_info(n) for n in ("peername", "sockname"))
        address = peer[0] if peer else "unknown"
        refused = "it is closing" if self._stopping.is_set() else self._gateway.admit(address)
        if refused is not None:
            LOG.warning("client %s is refused: %s", address, refused)
            client.abort()
            return
        gateway = self._gateway
        host = gateway.config.advertised_host or own[0]
        connection = Connection(
            client,
            Session(gateway.shared, address, host),
            lambda: self._reach(node_id),
            time.time,
            self._know_nodes,
            gateway.pool,
        )
        self._connections.add(connection)
        self._spawn(lambda: self._serve(connection, address))

    async def _serve(self, connection: Connection, address: str) -> None:
        try:
            await connection.serve()
        except ConnectionEndedError:
            pass
        except UnreachableError as error:
            if isinstance(error.__cause__, SilentBrokerError):
                self._gateway.note(error.__cause__.address, str(error.__cause__))
            LOG.warning("client %s: %s", address, error)
        except EXPECTED as error:
            LOG.info("client %s: %s", address, error or type(error).__name__)
        except Exception:
            LOG.exception("client %s: a defect of the gateway", address)
        finally:
            self._connections.discard(connection)
            self._gateway.dismiss(address)

    def _spawn(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._loop.create_task(start())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Client(Stream):
    """A connection that a client has made."""

    def __init__(self, worker: _Worker, node_id: int) -> None:
        super().__init__("the client")
        self._worker = worker
        self._node_id = node_id

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._worker.accept(self, self._node_id)
