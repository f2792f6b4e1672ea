"""A client's connection to one broker of the cluster: asks, forwards, keeps large responses.

Not here: which requests are sent (session.py), authentication (sasl.py)."""

import ssl
from asyncio import get_running_loop, timeout
from collections.abc import Callable
from functools import partial
from struct import Struct
from time import perf_counter
from typing import Final

from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.network.sockets.connecting import connect
from downconvert.gateway.network.sockets.ended import (
    ConnectionEndedError,
    SilentBrokerError,
    UnreachableError,
)
from downconvert.gateway.network.sockets.splicing import forward
from downconvert.gateway.network.sockets.streams import Stream
from downconvert.gateway.security import ClusterSecurity
from downconvert.gateway.session.exchanges import ASK_API_VERSIONS, Ask, ThrottleField
from downconvert.gateway.session.headers import OTHER
from downconvert.gateway.session.spool import Spool
from downconvert.gateway.topology import Address
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.responses import milliseconds
from downconvert.protocol.schemas import Message
from downconvert.serving.system_errors import words_of
from records.budget import MemoryBudget

from .conversion_pool import ConversionPool
from .sasl import AuthenticationError, authenticate

LENGTH: Final = Struct(">i")
CORRELATION: Final = Struct(">i")
THROTTLE: Final = Struct(">i")  # milliseconds
RESPONSE_MAX: Final = (1 << 31) - 1
CORRELATION_MAX: Final = (1 << 31) - 1
INLINE_MAX: Final = 4096  # bytes of a message that the event loop parses: a millisecond
OWN_CLIENT_ID: Final = "lazy-downconvert-gateway"


class Upstream:
    """A connection to a broker. One request at a time.

    `wait`: seconds that a request lets the broker wait, in addition to the request time-out."""

    __slots__ = (
        *("_budget", "_correlation_id", "_pool", "_request_timeout", "_spool_dir"),
        *("address", "api_versions", "api", "client_id_of", "name", "on_response", "stream"),
    )

    def __init__(
        self,
        stream: Stream,
        address: Address,
        config: GatewayConfig,
        pool: ConversionPool,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.stream = stream
        self.address = address
        self.name = str(address)  # for metrics
        self.api_versions: Message | None = None  # the broker's response to ASK_API_VERSIONS
        self.on_response: Callable[[str, float, str], None] | None = None  # seconds, and the API
        self.api = OTHER  # an API's name or OTHER, for metrics
        # The client id of requests: that of the client, once the connection is a client's.
        self.client_id_of: Callable[[], str | None] = lambda: OWN_CLIENT_ID
        self._pool = pool
        self._budget = budget  # for responses kept in memory
        self._request_timeout = config.limits.request_timeout
        self._spool_dir = config.spool_dir
        self._correlation_id = 0

    async def ask(self, ask: Ask, wait: float = 0.0) -> Message:
        """Sends a request of the gateway's own and returns the response. BadRequestError: the
        response is invalid."""
        correlation_id = await self.send(ask)
        if not ask.expects_response:
            return Message()
        spool = await self.response(wait)
        await self.receive(spool)
        read = partial(ask.response, spool, correlation_id)
        return await self._pool.run(read) if spool.size > INLINE_MAX else read()

    async def send(self, ask: Ask) -> int:
        """Sends a request of the gateway's own. Returns its correlation id."""
        correlation_id = self.write(ask)
        await self.stream.drain()
        return correlation_id

    def write(self, ask: Ask) -> int:
        """As `send`, for callers that drain afterwards or have checked `is_writable`."""
        correlation_id = self.next_id()
        self.stream.send(framed(ask, correlation_id, self.client_id_of()))
        return correlation_id

    def take_api_versions(self) -> Message:
        """The broker's response to ASK_API_VERSIONS. Forgets it, because a session asks for it
        once."""
        response, self.api_versions = self.api_versions, None
        assert response is not None
        return response

    def next_id(self) -> int:
        """The correlation id of the next request of the gateway's own."""
        self._correlation_id = self._correlation_id % CORRELATION_MAX + 1
        return self._correlation_id

    async def response(self, wait: float) -> Spool:
        """Waits for the start of the response to a sent request. The rest has not been received. If
        it is larger than INLINE_MAX, parsing takes too long for the event loop."""
        spool = Spool(await self._begun(wait), self._spool_dir, self._budget)
        self.stream.consume(LENGTH.size)
        self.stream.deadline.close()  # no timer is needed while the client receives the result
        return spool

    async def receive(self, spool: Spool) -> None:
        """Receives the rest of a response."""
        while not spool.is_whole:
            await self.stream.receive_into(spool.write, spool.size - spool.received)

    async def _begun(self, wait: float) -> int:
        """Reads the length of the next response. SilentBrokerError: no response comes."""
        started = perf_counter()
        await self._arrived(LENGTH.size, wait)
        if self.on_response is not None:
            self.on_response(self.name, perf_counter() - started, self.api)
        (size,) = LENGTH.unpack_from(self.stream.available)
        if not CORRELATION.size <= size <= RESPONSE_MAX:
            raise BadRequestError(
                f"the cluster claims a response of {size} bytes; the limit is {RESPONSE_MAX}"
            )
        return int(size)

    async def _arrived(self, size: int, wait: float = 0.0) -> None:
        """Waits for this many bytes of a response. SilentBrokerError."""
        limit = self._request_timeout + wait
        try:
            await self.stream.ensure(size, get_running_loop().time() + limit)
        except TimeoutError:
            raise SilentBrokerError(self.address, limit) from None

    async def forward_response(
        self,
        client: Stream,
        correlation_id: int,
        wait: float,
        charge: Callable[[int], float],
        throttle: ThrottleField | None = None,
    ) -> None:
        """Forwards the next response, byte for byte except for its throttle time.

        `charge`: called with the size of its frame before any byte is sent. Returns the seconds
        for which the client is then muted."""
        size = LENGTH.size + await self._begun(wait)
        await self._arrived(LENGTH.size + CORRELATION.size)
        if CORRELATION.unpack_from(self.stream.available, LENGTH.size)[0] != correlation_id:
            raise BadRequestError("the cluster answered another request")
        seconds = charge(size)
        if client.has_ended:  # nothing can be sent, but earlier requests are still handled
            await self.stream.receive_into(lambda _piece: None, size)
            return
        if seconds and throttle is not None:
            start = await self._throttled_start(throttle, size, seconds)
            client.send(start)
            size -= len(start)
        await forward(self.stream, client, size)

    async def _throttled_start(self, field: ThrottleField, size: int, seconds: float) -> bytes:
        """Takes the beginning of a frame of `size` bytes and returns it with the new throttle time.
        Returns nothing, and takes nothing, if the frame has no such field."""
        field_at = LENGTH.size + field.header_size
        start_size = field_at + THROTTLE.size
        if size < start_size:
            return b""
        await self._arrived(start_size)
        start = bytes(self.stream.available[:start_size])
        if any(start[LENGTH.size + CORRELATION.size : field_at]):  # it has tagged fields
            return b""
        (theirs,) = THROTTLE.unpack_from(start, field_at)
        self.stream.consume(start_size)
        return start[:field_at] + THROTTLE.pack(max(theirs, milliseconds(seconds)))

    def close(self) -> None:
        self.stream.close()


def framed(ask: Ask, correlation_id: int = 0, client_id: str | None = OWN_CLIENT_ID) -> bytearray:
    """A request of the gateway's own, with its length."""
    frame = ask.frame(correlation_id, client_id)
    return bytearray(LENGTH.pack(len(frame)) + frame)


async def reach(
    addresses: tuple[Address, ...],
    config: GatewayConfig,
    context: ssl.SSLContext | None,
    report: Callable[[Address, str | None], None] = lambda _address, _reason: None,
    *,
    pool: ConversionPool,
    budget: MemoryBudget | None = None,
) -> Upstream:
    """A connection to the first address that answers. UnreachableError: no address does.

    A connection that is accepted is not enough, because a hung broker accepts, too. `report` is
    called for each tried address, with None or the reason of the failure."""
    reasons = []
    limit = config.limits.connect_timeout
    for address in addresses:
        try:
            async with timeout(limit):
                upstream = await _open(address, config, context, pool, budget)
        except TimeoutError as error:
            reason = str(error) or f"it has not answered in {limit:g} s"
        except (AuthenticationError, ConnectionEndedError) as error:
            reason = str(error) or type(error).__name__
        except OSError as error:
            reason = words_of(error)
        except SilentBrokerError as error:
            reason = error.reason
        except (BadRequestError, UnreachableError) as error:
            reason = str(error)
        else:
            report(address, None)
            return upstream
        report(address, reason)
        reasons.append(f"broker {address}: {reason}")
    raise UnreachableError("; ".join(reasons) or "the broker is not part of the cluster any more")


async def _open(
    address: Address,
    config: GatewayConfig,
    context: ssl.SSLContext | None,
    pool: ConversionPool,
    budget: MemoryBudget | None,
) -> Upstream:
    patience = config.limits.request_timeout
    stream = await connect(address.host, address.port, context, patience)
    try:
        upstream = Upstream(stream, address, config, pool, budget)
        await _authenticate(upstream, config.security)
        upstream.api_versions = await upstream.ask(ASK_API_VERSIONS)
    except BaseException:
        stream.abort()
        raise
    return upstream


async def _authenticate(upstream: Upstream, security: ClusterSecurity) -> None:
    if security.credentials is None:
        return
    steps = authenticate(security.credentials)
    response: Message | None = None
    while True:
        try:
            asked = next(steps) if response is None else steps.send(response)
        except StopIteration:
            return
        response = await upstream.ask(asked)
