"""A client's connection to one broker of the cluster: asks, forwards, spools.

Not here: what is asked (session.py), how it is authenticated (sasl.py)."""

import ssl
from struct import Struct
from typing import Final

from downconvert.broker.errors import BadRequestError
from downconvert.broker.wire.schemas import Message

from .config import ClusterSecurity, GatewayConfig
from .exchanges import Ask
from .sasl import AuthenticationError, authenticate
from .spool import Spool
from .streams import ConnectionEndedError, Stream, connect
from .topology import Address

LENGTH: Final = Struct(">i")
CORRELATION: Final = Struct(">i")
RESPONSE_MAX: Final = (1 << 31) - 1
OWN_CLIENT_ID: Final = "lazy-downconvert-gateway"


class UnreachableError(Exception):
    """No broker of the cluster could be reached, or none would have us."""


class Upstream:
    """A connection to a broker. One request at a time."""

    def __init__(self, stream: Stream, spool_dir: str | None) -> None:
        self.stream = stream
        self._spool_dir = spool_dir
        self._correlation_id = 0

    async def ask(self, ask: Ask, client_id: str | None = OWN_CLIENT_ID) -> Message:
        """A request of the gateway's own, and its answer. BadRequestError: that is none."""
        self._correlation_id += 1
        frame = ask.frame(self._correlation_id, client_id)
        self.stream.send(LENGTH.pack(len(frame)) + frame)
        await self.stream.drain()
        if not ask.expects_response:
            return Message()
        return await self.answer(ask, self._correlation_id)

    async def answer(self, ask: Ask, correlation_id: int) -> Message:
        """The answer to what has been sent, spooled where it is large."""
        spool = Spool(await self.response_size(), self._spool_dir)
        while spool.received < spool.size:
            await self.stream.pour(spool.write, spool.size - spool.received)
        return ask.answer(spool, correlation_id)

    async def response_size(self) -> int:
        """The length of the response that comes next."""
        await self.stream.ensure(LENGTH.size)
        (size,) = LENGTH.unpack_from(self.stream.available)
        if not CORRELATION.size <= size <= RESPONSE_MAX:
            raise BadRequestError(f"the cluster claims a response of {size} bytes")
        self.stream.consume(LENGTH.size)
        return int(size)

    async def forward_response(self, client: Stream, correlation_id: int) -> None:
        """Passes the response that comes next on, byte for byte."""
        size = await self.response_size()
        await self.stream.ensure(CORRELATION.size)
        if CORRELATION.unpack_from(self.stream.available)[0] != correlation_id:
            raise BadRequestError("the cluster answered another request")
        client.send(LENGTH.pack(size))
        await self.stream.copy_to(client, size)

    def close(self) -> None:
        self.stream.close()


async def reach(addresses: tuple[Address, ...], config: GatewayConfig) -> Upstream:
    """A connection to the first of these that can be reached. UnreachableError: none can."""
    reasons = []
    context = tls_context(config.security)
    for address in addresses:
        try:
            stream = await connect(
                address.host, address.port, context, config.limits.connect_timeout
            )
        except (OSError, TimeoutError) as error:
            reasons.append(f"{address}: {error or type(error).__name__}")
            continue
        upstream = Upstream(stream, config.spool_dir)
        try:
            await _authenticate(upstream, config.security)
        except (AuthenticationError, ConnectionEndedError, BadRequestError) as error:
            upstream.close()
            reasons.append(f"{address}: {error}")
            continue
        return upstream
    raise UnreachableError("; ".join(reasons) or "the broker is not part of the cluster any more")


async def _authenticate(upstream: Upstream, security: ClusterSecurity) -> None:
    if security.credentials is None:
        return
    steps = authenticate(security.credentials)
    answer: Message | None = None
    while True:
        try:
            asked = next(steps) if answer is None else steps.send(answer)
        except StopIteration:
            return
        answer = await upstream.ask(asked)


def tls_context(security: ClusterSecurity) -> ssl.SSLContext | None:
    """For connections to the cluster; None: they are plain. OSError: a file cannot be read."""
    if not security.tls:
        return None
    context = ssl.create_default_context(cafile=security.ca_file)
    context.check_hostname = security.verify_hostname
    if security.cert_file is not None:
        context.load_cert_chain(security.cert_file, security.key_file)
    return context
