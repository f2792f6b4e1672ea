"""A broker without sockets. It takes request bytes and returns exchanges.

Any thread may call it, for several connections at a time. It neither waits nor reads a clock. `now`
is an argument, in seconds since the epoch, from a clock that never goes back. Files on disk get the
time of day instead (time_of_day.py).

An exchange belongs to one owner until `finished`. If the owner is passed in with the
request, its thread calls `run_due` and `run_turn`. Otherwise the thread that passed the request in
is the owner, and calls `complete_due` and `tick`.

Not here: state that requests share (state.py), sockets (server.py), the handlers of requests (a
file each, listed in handlers/apis.py)."""

from collections.abc import Callable, Mapping
from math import inf
from struct import Struct
from typing import Final

from downconvert.access import permissions, replica_ids
from downconvert.access.guard import is_checked, newest_offered
from downconvert.access.permissions import Permission
from downconvert.access.rights import Access
from downconvert.broker.handlers.apis import APIS, Api
from downconvert.protocol.errors import (
    BadRequestError,
    ExpiredSessionError,
    FailedLoginError,
)
from downconvert.protocol.known_requests import (
    API_AT,
    BEFORE_PARSING,
    CORRELATION_ID,
    CORRELATION_ID_AT,
    KnownRequests,
)
from downconvert.protocol.requests import Request, RequestHeader, parse_body, parse_header
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.series import NAME_MAX
from downconvert.storage import LogDir
from records.units import KiB

from .config import BrokerConfig
from .exchange import Client, Exchange, Quota
from .handlers import api_versions, produce, sasl
from .owner import Owner, ThreadOwner
from .state import BrokerState

LARGE_SIZE: Final = 64 * KiB  # of a request whose parsing may take tens of milliseconds
UNPARSED: Final = Message()  # the body of a request whose fields are known; nothing changes it
API: Final = Struct(">hh")  # the first fields of a request: API key and version


class Broker(BrokerState):
    """The state of a broker, and its entry point for requests."""

    exchange_type: type[Exchange] = Exchange  # replaced by simulations that measure responses

    def __init__(self, log_dir: LogDir, config: BrokerConfig | None = None) -> None:
        super().__init__(log_dir, config)
        self.apis = APIS
        self._mine = ThreadOwner()
        self._known = KnownRequests()

    @property
    def apis(self) -> Mapping[ApiKey, Api]:
        """The handler of each request."""
        return self._apis

    @apis.setter
    def apis(self, apis: Mapping[ApiKey, Api]) -> None:
        self._apis = apis
        self.versions = {key: api.versions for key, api in apis.items()}
        self.version_responses = {}

    def handle(
        self,
        client: Client,
        frame: memoryview,
        now: float,
        on_done: Callable[[Exchange], None] | None = None,
        owner: Owner | None = None,
    ) -> Exchange:
        """Handles a request's frame, without its length. The exchange is done at once or later. Its
        owner then calls `on_done`. `owner` None: the calling thread.

        BadRequestError: the bytes cannot be answered, so the connection must end.
        The frame must not change until the exchange is done, or `finished`."""
        mine = self._mine.owner if owner is None else owner
        client.requests += 1
        if client.state and sasl.expects_token(client):
            return sasl.raw(self, client, frame, now, on_done, mine)
        known: Request | None = None
        if frame[API_AT : API_AT + 1].tobytes() in BEFORE_PARSING:
            _, known = self._known.find(frame)
        header = parse_header(frame) if known is None else known.header
        client_id = (header.client_id or "")[:NAME_MAX]
        if client_id != client.client_id:
            client.client_id, client.labels = client_id, None
        if client.proved is not None:
            self._check_session(client, header, now)
        if client.access is None:
            self._identify(client, header)
        api = self._apis.get(header.api)
        if api is None:
            raise BadRequestError(f"{header.api.name} is not served here")
        if header.version not in api.versions:
            return self._refuse_version(client, header, frame, now, on_done, mine)
        access = client.access
        is_limited = access is not None and (access.is_closed or access.is_read_only)
        request, values = known, None  # or the values of a request that takes the fast path
        fast = api.fast_path
        if request is None or is_limited:
            if fast is not None and header.version in fast.versions and not is_limited:
                values = fast.reader(header.version)(frame, header.size)
            if values is None:
                request = self._parsed(header, frame, is_shared=not is_limited)
            else:
                request = Request(header, UNPARSED, len(frame))
        exchange = self.exchange_type(client, request, now, on_done, mine)
        (exchange.correlation_id,) = CORRELATION_ID.unpack_from(frame, CORRELATION_ID_AT)
        self.metrics.received(exchange)
        if access is not None and access.has_rates:
            exchange.quota = self._quota(exchange, access)
        try:
            if values is None or fast is None or not fast.answer(self, exchange, values, now):
                if values is not None:
                    exchange.request = parse_body(header, frame)
                may_refuse = is_limited or header.api in replica_ids.SINCE
                if access is None or not may_refuse or self._permits(exchange, access):
                    api.handler(self, exchange, now)
        except Exception as error:
            if not isinstance(error, BadRequestError):
                exchange.defect = error
            self.finished(exchange)
            raise
        if owner is None:
            self.complete_due(now)
        elif self.purgatory.notified:
            self.purgatory.complete_due(now, expires=False)  # `keep_time` finds expired ones
        return exchange

    def _refuse_version(
        self,
        client: Client,
        header: RequestHeader,
        frame: memoryview,
        now: float,
        on_done: Callable[[Exchange], None] | None,
        owner: Owner,
    ) -> Exchange:
        """BadRequestError: only ApiVersions has a response to a version that is not served."""
        if header.api is not ApiKey.ApiVersions:
            raise BadRequestError(f"{header.api.name} v{header.version} is not served here")
        request = Request(header, Message(), len(frame))
        exchange = Exchange(client, request, now, on_done, owner)
        api_versions.refuse_version(exchange, self._apis[header.api].versions)
        return exchange

    def _parsed(self, header: RequestHeader, frame: memoryview, *, is_shared: bool) -> Request:
        """Parses a request, unless an earlier one had the same bytes. `is_shared`: whether nothing
        changes it. Raises BadRequestError if it is malformed."""
        key, known = self._known.find(frame) if is_shared else (None, None)
        if known is not None:
            return known
        if key is None:
            return parse_body(header, frame)
        request = parse_body(header, memoryview(bytes(frame)))  # the connection reuses its buffer
        self._known.keep(key, request)
        return request

    def _check_session(self, client: Client, header: RequestHeader, now: float) -> None:
        """ExpiredSessionError: the client's login has expired [KIP-368]."""
        assert client.proved is not None
        if client.proved.expires_at is None or header.api in sasl.LOGIN:
            return
        if client.proved.expires_at <= self.time_of_day.at(now):
            raise ExpiredSessionError("its token has expired, and it has not sent another")

    def _identify(self, client: Client, header: RequestHeader) -> None:
        """FailedLoginError: the client must authenticate before this request."""
        guard = self.guard
        if not guard.identities.is_needed:
            client.access = guard.access
        elif header.api not in sasl.BEFORE:
            found = guard.identify(client.address, None, client.certificate)
            if found is None:
                raise FailedLoginError(f"{header.api.name} before authentication")
            client.access, client.rule = found.access, found.rule

    def _quota(self, exchange: Exchange, access: Access) -> Quota | None:
        """The quota of an exchange: for a produce by its request, for a fetch by its response."""
        client, request = exchange.client, exchange.request
        who = client.principal or client.certificate or client.address
        charge = self.quotas.charge
        if request.api is ApiKey.Produce and access.producer_byte_rate is not None:
            rate = access.producer_byte_rate
            return lambda _, now: charge(who, "produce", request.size, rate, now)
        if request.api is ApiKey.Fetch and access.consumer_byte_rate is not None:
            rate = access.consumer_byte_rate
            return lambda size, now: charge(who, "fetch", size, rate, now)
        return None

    def _permits(self, exchange: Exchange, access: Access) -> bool:
        """Removes the parts of a request that are not allowed, and answers it if nothing is left.
        Returns whether a handler must process the rest. BadRequestError: the API is not offered to
        this client."""
        api, version, body = exchange.request.api, exchange.request.version, exchange.request.body
        if api in replica_ids.SINCE:
            replica_id = replica_ids.of_body(api, version, body)
            if replica_id not in replica_ids.CONSUMERS and replica_id not in access.follower_ids:
                exchange.reply(replica_ids.refusal(api, body))
                return False
        if api in sasl.BEFORE or not (access.is_closed or access.is_read_only):
            return True
        if version > newest_offered(access, api, version):
            raise BadRequestError(f"{api.name} v{version} is not offered to this client")
        if api is ApiKey.Fetch or not is_checked(access, api):
            return True  # a fetch is checked with each partition of its session (fetch_reader.py)
        if api is ApiKey.Metadata and version == 0:
            body.topics = body.topics or None  # in version 0, an empty list means all topics
        permission = Permission(access, api, version, body, self._named(api, version, body))
        if permission.refusal is not None and api is ApiKey.Produce and not body.acks:
            produce.refuse_without_response(exchange)
        elif permission.refusal is not None:
            exchange.reply(permission.refusal)
        else:
            exchange.permission = permission
            return True
        return False

    def _named(self, api: ApiKey, version: int, body: Message) -> list[Message]:
        """The topics that a request names by id, if authorization needs their names."""
        if permissions.question(api, version, body) is None:
            return []
        found = (self.topics.by_id(bytes(one.topic_id)) for one in body.topics)
        return [Message(topic_id=one.id, name=one.name) for one in found if one is not None]

    def takes_long(self, frame: memoryview) -> bool:
        """Whether a request may take long: it is large, continues a large fetch session, or is a
        produce with records to convert (in an old version, or for a topic with its own format or
        codec). A cheap check. Conversion for fetches is noticed at their responses instead."""
        if len(frame) < API.size:
            return False
        key, version = API.unpack_from(frame)
        if key == ApiKey.Fetch and self.fetch_sessions.large and len(frame) <= LARGE_SIZE:
            return self._continues_large_session(frame)
        if key != ApiKey.Produce:
            return len(frame) > LARGE_SIZE
        if not self.config.is_writable:
            return False
        if 0 <= version < produce.BATCHES_VERSION:
            return True
        return bool(self.topics.rewriting) and self._rewrites(frame)

    def _continues_large_session(self, frame: memoryview) -> bool:
        request = self._request_in(frame)
        return request is not None and request.body.session_id in self.fetch_sessions.large

    def _rewrites(self, frame: memoryview) -> bool:
        request = self._request_in(frame)
        return request is not None and produce.has_rewriting(self, request)

    def _request_in(self, frame: memoryview) -> Request | None:
        """Parses a frame. None: it is malformed or not served, which handling it will report."""
        try:
            header = parse_header(frame)
            api = self.apis.get(header.api)
            if api is None or header.version not in api.versions:
                return None
            return parse_body(header, frame)
        except BadRequestError:
            return None

    def hurry(self, exchange: Exchange) -> None:
        """A fetch waits for no more records, because its request takes memory that others need.
        Called by its owner."""
        if exchange.request.api is ApiKey.Fetch:
            self.purgatory.expire(exchange)

    def finished(self, exchange: Exchange, now: float | None = None) -> None:
        """Releases the resources of an exchange, after its response is sent or its client has gone.
        Called once, by its owner. `now`: to measure how long the request took."""
        if not exchange.is_done:
            exchange.abandon()
        if exchange.has_waited:
            self.purgatory.forget(exchange)
        if exchange.holds_turns:
            self.chunk_budget.release(exchange.client.id)
            self.planning_slots.release(exchange.client.id)
        self.metrics.finished(exchange, now)
        if exchange.defect is not None:
            self.metrics.failed(exchange)
        send = exchange.send
        if send is not None and send.sent < send.size:  # else its records have released all
            send.close()

    # --- deadlines and turns

    def run_due(self, owner: Owner, now: float) -> bool:
        """Runs one posted step of an owner's exchanges. Returns whether there was one."""
        has_run = owner.run_due(now)
        self.purgatory.complete_due(now, expires=False)  # the step may have made operations due
        return has_run

    def run_turn(self, owner: Owner, now: float) -> bool:
        """Runs one turn of an owner's work in progress. Returns whether there was one."""
        has_run = owner.run_turn(now)
        self.purgatory.complete_due(now, expires=False)
        return has_run

    def keep_time(self, now: float) -> float:
        """Posts to the owners of operations past their deadline. Returns the next deadline, in
        seconds of the same clock; infinity: nothing waits. Only one thread, which keeps time for
        all owners, calls this."""
        self.purgatory.complete_due(now)
        return self.purgatory.next_deadline

    def complete_due(self, now: float) -> None:
        """Completes due operations of the calling thread's exchanges."""
        self.purgatory.complete_due(now, expires=False)
        while self.run_due(self._mine.owner, now):
            pass

    def tick(self, now: float) -> float | None:
        """Completes operations of the calling thread's exchanges that are due or past their
        deadline, and runs one turn of work in progress. Returns when to call it again, in seconds
        of the same clock."""
        self._mine.owner.run_turns(now)
        self.purgatory.complete_due(now)
        self.complete_due(now)
        if self._mine.owner.has_work:
            return now
        deadline = self.purgatory.next_deadline
        return None if deadline == inf else deadline
