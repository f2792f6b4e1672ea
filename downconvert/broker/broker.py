"""A broker without sockets: request bytes in, exchanges out.

Any thread may call it, and for several connections at a time. It neither waits nor reads a clock:
`now` is handed in, in seconds since the epoch of a clock that never goes back.

Not here: sockets (server.py), what single requests do (one file each, listed in apis.py)."""

from collections.abc import Callable

from downconvert.broker.groups.coordinator import Groups
from downconvert.broker.handlers.apis import APIS
from downconvert.broker.wire.requests import Request, parse_body, parse_header
from downconvert.broker.wire.schemas import ApiKey, Message
from downconvert.storage import LogDir

from .chunks import Chunks
from .config import BrokerConfig
from .errors import BadRequestError
from .exchange import Client, Exchange
from .fetch_session import FetchSessions
from .handlers import api_versions, sasl
from .kept import KeepRoom
from .metrics import Metrics
from .producer_ids import ProducerIds
from .purgatory import Purgatory
from .topics import Topics


class Broker:
    """What all requests of a broker share."""

    def __init__(self, log_dir: LogDir, config: BrokerConfig | None = None) -> None:
        self.config = config or BrokerConfig()
        self.topics = Topics(log_dir, self.config)
        self.producer_ids = ProducerIds(self.topics, self.config.node_id)
        self.purgatory = Purgatory()
        self.groups = Groups(self)
        self.fetch_sessions = FetchSessions(self.config.fetch_session_slots)
        self.keep_room = KeepRoom(self.config.conversions_kept_bytes)
        self.metrics = Metrics(self.fetch_sessions, self.purgatory)
        self.chunks = Chunks(self.config.policy)
        self.apis = APIS
        self.credentials: sasl.Credentials | None = None  # None: nobody has to authenticate

    def handle(
        self,
        client: Client,
        frame: memoryview,
        now: float,
        on_done: Callable[[Exchange], None] | None = None,
    ) -> Exchange:
        """Takes a request's frame, without its length. It may be done at once or later: `on_done`
        is called when it is, by whichever thread makes it so.

        BadRequestError: the bytes are no request that can be answered; the connection must end.
        The frame must stay as it is until the exchange is done."""
        if self.credentials is not None and client.principal is None:
            token = sasl.raw(client, frame, now, on_done)
            if token is not None:
                return token
        header = parse_header(frame)
        if self.credentials is not None and client.principal is None:
            sasl.check(header)
        api = self.apis.get(header.api)
        if api is None:
            raise BadRequestError(f"{header.api.name} is not served here")
        if header.version not in api.versions:
            if header.api is not ApiKey.ApiVersions:
                raise BadRequestError(f"{header.api.name} v{header.version} is not served here")
            request = Request(header, Message(), len(frame))
            exchange = Exchange(client, request, now, on_done)
            api_versions.refuse_version(exchange, api.versions)
            return exchange
        exchange = Exchange(client, parse_body(header, frame), now, on_done)
        self.metrics.received(exchange)
        api.handler(self, exchange, now)
        self.purgatory.settle(now, expires=False)  # what is late is done by who keeps the time
        return exchange

    def tick(self, now: float) -> float | None:
        """Does what is due; the time of the next deadline, in seconds of the same clock."""
        self.purgatory.settle(now)
        return self.purgatory.next_deadline()
