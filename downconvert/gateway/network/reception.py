"""Prepares a new connection for serving: its place, its PROXY header, its TLS handshake.

A connection is counted before anything else. Without a PROXY header and TLS, it is served at once,
with no task for preparing it: thousands may come when a broker restarts.

Not here: serving it afterwards (loop.py), the format of PROXY headers (proxy_header.py)."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from downconvert.gateway.audit import Audit
from downconvert.gateway.certificates import Certificates
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.figures import Counters, End
from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.event_loop import EventLoop
from downconvert.gateway.network.sockets.socket_transport import SocketTransport
from downconvert.gateway.network.sockets.streams import CLIENT, Stream
from downconvert.gateway.topology import Topology
from downconvert.protocol.errors import BadRequestError
from downconvert.serving.line_budget import LineBudget
from downconvert.serving.places import NoPlaceError, Place
from downconvert.serving.system_errors import words_of

from .connection_log import log_handshake, log_refusal
from .handshake import HANDSHAKE, Handshake
from .proxy_header import Proxied, bytes_missing, parse

# Errors if the client leaves during its handshake, like a probe of the port.
GONE: Final = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
REFUSED: Final = (ConnectionEndedError, BadRequestError, NoPlaceError, OSError)


class Host(Protocol):
    """The parts of a gateway (server.py) that this file needs."""

    config: GatewayConfig
    topology: Topology
    counters: Counters
    lines: LineBudget
    audit: Audit
    certificates: Certificates

    def admit(self, address: str) -> Place: ...
    def admit_balancer(self, address: str) -> Place: ...


class Reception:
    """The new connections of one event loop. `begin` begins to serve a client after its
    handshake."""

    def __init__(
        self,
        gateway: Host,
        loop: EventLoop,
        is_stopping: Callable[[], bool],
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], "asyncio.Task[None]"],
        begin: Callable[[Stream, Place, Handshake, str], None],
    ) -> None:
        self._gateway = gateway
        self._loop = loop
        self._is_stopping = is_stopping
        self._spawn = spawn
        self._begin = begin
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[None]] = set()  # of clients before or in their handshake

    def accept(self, node_id: int, channel: socket.socket, address: str) -> None:
        """Admits a client, or a load balancer that connects for one, and begins to serve it."""
        config = self._gateway.config
        has_header = config.expects_proxy_header(address)
        try:
            if self._is_stopping():
                raise NoPlaceError("it is closing")
            admit = self._gateway.admit_balancer if has_header else self._gateway.admit
            place = admit(address)
        except NoPlaceError as error:
            self._refuse(channel, address, error)
            return
        handshake = Handshake(node_id, channel.send, connection=next(self._numbers))
        if not has_header and self._gateway.certificates.server is None:
            self._settle(place)
            self._connect(channel, place, handshake)
            return
        task = self._spawn(
            lambda: self._serve_client(channel, place, handshake, has_header=has_header)
        )
        self._keep(place, task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Ends connections that have not finished their handshake."""
        for task in self._tasks:
            task.cancel()

    def _settle(self, place: Place) -> None:
        """If clients need no identity, the connection keeps its place for good."""
        if not self._gateway.config.identities.is_needed:
            place.settle()

    def _keep(self, place: Place, task: "asyncio.Task[None]") -> None:
        """The connection keeps its place until another takes it, or for good."""
        self._settle(place)
        place.on_evicted = partial(self._evict, task)

    def _evict(self, task: "asyncio.Task[None]") -> None:
        """Ends a handshake: another connection took its place."""
        self._gateway.counters.connection_ended(End.REFUSED)
        task.cancel()

    def _refuse(self, channel: socket.socket, address: str, error: Exception) -> None:
        reason = _end_of(error)
        text = str(error) or "it has sent no PROXY header"
        gateway = self._gateway
        log_refusal(gateway.lines, gateway.audit, address, text, reason, self._loop.time())
        gateway.counters.connection_ended(reason)
        channel.close()

    async def _serve_client(
        self, channel: socket.socket, place: Place, handshake: Handshake, *, has_header: bool
    ) -> None:
        """Shakes hands, and begins to serve the client."""
        task = asyncio.current_task()
        assert task is not None
        if has_header:
            found = await self._find(channel, place, handshake)
            if found is None:
                return
            place = found
            self._keep(place, task)
        tls = self._gateway.certificates.server
        if tls is None:
            self._connect(channel, place, handshake)
        else:
            await self._handshake(tls, channel, place, handshake)

    async def _find(
        self, channel: socket.socket, place: Place, handshake: Handshake
    ) -> Place | None:
        """Finds a client behind a load balancer by its PROXY header, and its place. None: the
        client is refused."""
        address = place.address
        try:
            async with asyncio.timeout(self._gateway.config.limits.handshake_timeout):
                proxied = await self._read_header(channel)
            if proxied is not None:
                address, handshake.reached = proxied.address, proxied.reached
            place.release()
            return self._gateway.admit(address)
        except REFUSED as error:
            self._refuse(channel, address, error)
            return None
        except BaseException:
            channel.close()
            raise
        finally:
            place.release()

    async def _read_header(self, channel: socket.socket) -> Proxied | None:
        """Reads the PROXY header and no byte beyond it."""
        data = b""
        while missing := bytes_missing(data):
            piece = await self._loop.sock_recv(channel, missing)
            if not piece:
                raise ConnectionEndedError("the load balancer")
            data += piece
        return parse(data)

    def _connect(self, channel: socket.socket, place: Place, handshake: Handshake) -> None:
        """Begins to serve a client without TLS, unless the system lacks resources."""
        client = Stream(CLIENT)
        try:
            reached = handshake.reached or channel.getsockname()[0]
            SocketTransport(self._loop, channel, client)
        except OSError as error:
            place.release()
            self._refuse(channel, place.address, NoPlaceError(words_of(error)))
        else:
            self._begin(client, place, handshake, reached)

    async def _handshake(
        self, tls: ssl.SSLContext, channel: socket.socket, place: Place, handshake: Handshake
    ) -> None:
        """Shakes hands, and begins to serve the client."""
        gateway = self._gateway
        client = Stream(CLIENT)
        HANDSHAKE.set(handshake)
        tls.sni_callback = self._take_server_name if gateway.config.goes_by_name else None
        limit = gateway.config.limits.handshake_timeout
        try:
            reached = handshake.reached or channel.getsockname()[0]
            await self._loop.connect_accepted_socket(
                lambda: client, channel, ssl=tls, ssl_handshake_timeout=limit
            )
        except BaseException as error:
            if not isinstance(error, OSError):
                place.release()
                channel.close()
                raise
            self._log_failed_handshake(place.address, handshake, error)
            place.release()
        else:
            self._begin(client, place, handshake, reached)

    def _log_failed_handshake(self, address: str, handshake: Handshake, error: OSError) -> None:
        is_gone = isinstance(error, GONE) and not handshake.refusal
        reason = End.CLIENT if is_gone else End.HANDSHAKE
        text = handshake.refusal or getattr(error, "reason", None) or str(error)
        lines, now = self._gateway.lines, self._loop.time()
        log_handshake(lines, address, text, reason, handshake, now)
        self._gateway.counters.connection_ended(reason)

    def _take_server_name(self, _: object, name: str | None, __: object) -> int | None:
        """Called during a handshake with the requested server name. Returns the alert that ends
        the handshake; None: it continues."""
        handshake, gateway = HANDSHAKE.get(), self._gateway
        handshake.take_server_name(name, gateway.config, gateway.topology.nodes)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME if handshake.refusal else None


def _end_of(error: Exception) -> End:
    """Why a connection ended before its handshake was finished."""
    match error:
        case NoPlaceError():
            return End.REFUSED
        case TimeoutError():
            return End.TIMEOUT
        case ConnectionEndedError() | OSError():
            return End.CLIENT
    return End.REQUEST
