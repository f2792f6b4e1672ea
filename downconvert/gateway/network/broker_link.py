"""A client's own connection to its broker. It is made when the client first needs it.

If the client goes while it waits for a response, the broker's connection is closed. Otherwise a
broker that waits for records would keep it open for long.

Not here: requests that are forwarded in callbacks (passing.py), the client's side (connection.py).
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from downconvert.gateway.network.sockets.ended import UnreachableError
from downconvert.gateway.network.sockets.streams import Stream
from downconvert.gateway.session import headers
from downconvert.gateway.session.exchanges import Ask, Forward, Result
from downconvert.gateway.session.session import Session
from downconvert.gateway.session.spool import MEMORY_MAX, Spool
from downconvert.gateway.session.waiting import Waits
from downconvert.protocol.schemas import Message

from .client_request import ClientRequest
from .cluster_broker import ClusterBroker
from .passing import Passing
from .upstream import Upstream


def _nothing() -> None:
    """The default callback."""


class BrokerLink:
    """One client's access to its broker.

    `on_waiting`: called when a wait for the broker begins. `on_end`: called when the broker's
    connection has ended. `has_client_gone`: the client left during a wait, so the broker's
    connection was closed."""

    __slots__ = (
        *("_broker", "_cached_versions", "_client", "_is_waiting", "_passing", "_session"),
        *("_upstream", "_waits", "has_client_gone", "on_end", "on_waiting"),
    )

    def __init__(
        self, client: Stream, session: Session, broker: ClusterBroker, passing: Passing
    ) -> None:
        self.on_waiting: Callable[[], None] = _nothing
        self.on_end: Callable[[], None] = _nothing
        self.has_client_gone = False
        self._client = client
        self._session = session
        self._broker = broker
        self._passing = passing
        self._upstream: Upstream | None = None
        self._cached_versions: Message | None = None  # used until the broker is reached
        self._is_waiting = False  # for a response of the broker
        self._waits = Waits()

    @property
    def has_ended(self) -> bool:
        """Whether the broker has closed the connection."""
        return self._upstream is not None and self._upstream.stream.has_ended

    @property
    def stream(self) -> Stream:
        """The connection to the broker. It must have been reached."""
        assert self._upstream is not None
        return self._upstream.stream

    @property
    def peer(self) -> str:
        """The broker's name, for messages."""
        return self.stream.peer

    async def api_versions(self) -> Message:
        """The versions that the broker serves, perhaps from another connection's recent
        question."""
        if self._upstream is None:
            response = await self.while_waiting(self._broker.recent_api_versions())
            if response is not None:
                self._cached_versions = response
                return response
        return (await self._reached()).take_api_versions()

    async def _reached(self) -> Upstream:
        """The connection to the broker. It is made now if there is none. Unidentified clients never
        need it."""
        if self._upstream is None:
            reaching = self._broker.reach(self._session.identity.credentials)
            self._upstream = await self.while_waiting(reaching)
            self._upstream.stream.on_end = self.on_end
            session = self._session
            self._upstream.client_id_of = lambda: session.full_client_id
            self._passing.reach(self._upstream)
            known = self._cached_versions
            if known is not None and self._upstream.take_api_versions().api_keys != known.api_keys:
                raise UnreachableError("the broker serves other versions than a moment ago")
        self._upstream.api = self._session.api
        return self._upstream

    async def ask(
        self, ask: Ask, request: ClientRequest, correlation_id: int | None
    ) -> tuple[Callable[[], Message], Spool | None]:
        """Asks the cluster. Returns the function that reads the response, and the response. A large
        response has not arrived whole. `correlation_id`: of the request, if it has been sent
        already."""
        upstream = await self._reached()
        # The request is sent even if the client has gone, because brokers handle all requests that
        # they have received.
        if ask.body is not None:
            wait = self._waits.of_body(ask.api, ask.body)
            if correlation_id is None:
                correlation_id = await upstream.send(ask)
            if not ask.expects_response:
                return Message, None
        else:
            await request.pass_to(upstream.stream)
            header = headers.parse(request.prefix)
            wait = self._waits.of_frame(header, request.prefix)
            correlation_id = header.correlation_id
        spool = await self.while_waiting(upstream.response(wait))
        read = partial(ask.response, spool, correlation_id)
        if spool.size > MEMORY_MAX and upstream.stream.is_plain:
            return read, spool
        await self.while_waiting(upstream.receive(spool))
        return read, spool

    async def forward(
        self, reply: Forward, request: ClientRequest, charge: Callable[[int], float]
    ) -> None:
        """Forwards the request to the broker, and its response to the client. `charge`: called with
        the response's size. Returns the seconds for which the client is then muted."""
        upstream = await self._reached()
        await request.pass_to(upstream.stream)
        if not reply.expects_response:
            charge(0)
            return
        header = reply.header
        wait = self._waits.of_frame(header, request.prefix)
        response = upstream.forward_response(
            self._client, header.correlation_id, wait, charge, reply.throttle
        )
        await self.while_waiting(response)

    async def while_waiting(self, response: Coroutine[Any, Any, Result]) -> Result:
        """Waits for the broker. If the client goes meanwhile, the broker's connection is closed."""
        self._is_waiting = True
        try:
            self.on_waiting()
            return await response
        finally:
            self._is_waiting = False

    def client_ended(self) -> None:
        """The client has gone, and has no more requests."""
        if self._is_waiting and self._upstream is not None:
            self.has_client_gone = True
            self._upstream.close()

    def close(self) -> None:
        """Closes the broker's connection, if there is one. Written bytes are still sent."""
        self.on_waiting = self.on_end = _nothing  # breaks a reference cycle with the owner
        if self._upstream is not None:
            self._upstream.close()
