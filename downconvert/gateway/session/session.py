"""One client's session: decides how each of its requests is handled.

A request is forwarded as it is, answered here, or translated (translation.py, fetching.py,
recoding.py, producing.py)."""

import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from downconvert.access import permissions, replica_ids
from downconvert.access.guard import is_checked
from downconvert.access.permissions import Permission
from downconvert.gateway.advertised import Advertised
from downconvert.gateway.audit import trace_id
from downconvert.gateway.topology import names_addresses
from downconvert.protocol.decoder import decode
from downconvert.protocol.error_codes import error_codes
from downconvert.protocol.errors import BadRequestError, ErrorCode
from downconvert.protocol.requests import parse_body
from downconvert.protocol.responses import ResponseSend, encoded_response, response, throttled
from downconvert.protocol.schemas import ApiKey, Message, schema
from downconvert.protocol.software import is_valid, software_of
from downconvert.serving.series import NAME_MAX
from records.logged import log_of

from . import headers, producing, sent
from .answering import over_limit, request_header, versions_unsupported
from .census import ClientKey
from .client_identity import CORRELATION_SIZE, ClientIdentity
from .exchanges import (
    ASK_API_VERSIONS,
    NO_MEMORY,
    Ask,
    Checks,
    Forward,
    HangUp,
    Nothing,
    Reading,
    Reply,
    Response,
    Steps,
    Turn,
    Whole,
)
from .headers import OTHER, Header
from .passed_kind import PassedKinds
from .relay import Relay
from .repeated import RepeatedFetches, User
from .shared import Shared
from .translator import Translator
from .versions import AUTHENTICATION, Versions

LOG: Final = log_of(__name__)


class Session:
    """A client and its connection to one broker of the cluster."""

    __slots__ = (  # thousands of idle connections exist
        *("_client", "_cluster", "_login", "_read", "_relay", "_seen", "_tls", "_translator"),
        *("_versions", "address", "advertised", "response_size", "api", "begun", "client_id"),
        *("full_client_id", "identity", "passed", "repeated", "rule", "shared", "software"),
    )

    def __init__(
        self,
        shared: Shared,
        address: str,
        advertised: Advertised,
        certificate: str | None = None,
        tls: str = "",
    ) -> None:
        self.shared = shared
        self.identity = ClientIdentity(shared, address, certificate)
        self._login = self.identity.login
        self._tls = tls  # the client's TLS version
        self.address = address  # the client's
        self.advertised = advertised  # the brokers' addresses for the client
        self.begun = 0  # the number of exchanges so far
        self.software = self.client_id = ""
        self.full_client_id: str | None = None  # of the last request, as the client sent it
        self._read: tuple[Message, float] | None = None  # the last parsed fetch and its time
        self.api = OTHER  # of the last request: an API's name or OTHER
        self.rule, self.response_size = "", 0  # of the last request, for metrics
        self.passed = PassedKinds()  # kinds of requests that need no parsing
        self.repeated = RepeatedFetches()  # old fetches that are answered without an exchange
        self._cluster: Message | None = None  # the broker's ApiVersions response
        self._versions: Versions
        self._translator: Translator
        self._relay = Relay()
        self._client: ClientKey | None = None  # of the last counted request
        self._seen: tuple[object, ...] = ()  # the values that `_client` depends on

    def exchange(self, frame: memoryview, size: int, now: float) -> Steps:
        """Handles a request of `size` bytes. `frame`: its beginning, or all of it.

        BadRequestError: the client's request or the cluster's response is invalid."""
        self.begun += 1
        if self._login is not None and self._login.expects_token:
            reply = yield from self._login.take_raw(frame, size, now)
            return (yield from self.identity.logged_in(reply, now))
        if self._relay.expects_token:
            return (yield from self._relay.take(frame, size))
        header = headers.parse(frame)
        self.full_client_id = header.client_id
        self.client_id = (header.client_id or "")[:NAME_MAX]
        early = yield from self._identify(header, frame, size, now)
        if early is not None:
            return early
        if self._cluster is None:
            yield from self.identity.admit(now)
            if self.identity.over_limit:
                return over_limit(header, self.identity.over_limit)
            self._take_api_versions((yield ASK_API_VERSIONS))
        passes = self._versions.passes(header.key, header.version)
        self._count(header, now, passes)
        return (yield from self._serve(header, frame, size, now, passes))

    def _identify(self, header: Header, frame: memoryview, size: int, now: float) -> Checks:
        """The reply to a login, or to a client that must log in first. None: it is identified."""
        if header.api in AUTHENTICATION or header.api is ApiKey.ApiVersions:
            self.passed.clear()  # the client's identity or software may change
            self.repeated.clear()
        if self._login is not None and self._login.takes(header):
            reply = yield from self._login.handle(header, frame, size, now)
            return (yield from self.identity.logged_in(reply, now))
        if self.identity.has_expired(now):
            return HangUp("its token has expired, and it has not sent another", has_expired=True)
        if self.identity.identified is None:
            may_log_in = header.api is ApiKey.ApiVersions and self._login is not None
            if may_log_in or not self.identity.find():
                if header.api is ApiKey.ApiVersions:
                    return self._versions_before_login(header, frame)
                return HangUp(f"{header.name} of a client that matches no rule", is_login=True)
        return None

    def _serve(
        self, header: Header, frame: memoryview, size: int, now: float, passes: bool
    ) -> Steps:
        """Answers, refuses, translates or forwards a request of an identified client.

        `passes`: it can be forwarded in its own version."""
        if header.api is ApiKey.ApiVersions:
            return self._api_versions(header, frame)
        if header.api in replica_ids.SINCE:
            refused = yield from self._followers_refused(header, frame, size)
            if refused is not None:
                return refused
        if self.shared.config.is_observing:
            yield from self.identity.audit_passed_on(header, frame, size)
            return self._forwarded(header, frame, self._expects_response(header, frame))
        offered = self._versions.offered.get(header.key)
        if offered is None or header.version not in offered:
            return (yield from self._refuse(header, frame, size))
        if header.api is ApiKey.SaslHandshake and header.version == 0:
            return (yield from self._relay.handshake(header, frame))
        if is_checked(self.identity.access, header.key):
            return (yield from self._permitted(header, frame, size, now))
        if not passes or self._translator.may_be_recoded(header, self._names(header)):
            body = yield from self._body(header, frame, size)
            return self._answered(header, (yield from self._ask(header, body, now)), body)
        if not self._expects_response(header, frame):
            return Forward(header, expects_response=False)
        names_brokers = names_addresses(header.api, header.version)
        is_audited = self.identity.audits(header.key) and header.api is not None
        if names_brokers or is_audited or self.identity.throttles_at_the_end(header):
            assert header.api is not None
            read = (yield from self._body(header, frame, size)) if is_audited else None
            answer = yield Ask(header.api, header.version, None)
            if names_brokers:
                self.shared.topology.rewrite(header.api, header.version, answer, self.advertised)
            return self._answered(header, answer, read)
        yield from self.identity.audit_passed_on(header, frame, size)
        return self._forwarded(header, frame)

    def _forwarded(self, header: Header, frame: memoryview, expects_response: bool = True) -> Reply:
        who = self.identity
        throttle = who.throttle_field(header)
        has_rate = throttle is not None or who.is_timed or who.throttles_at_the_end(header)
        is_seen = LOG.isEnabledFor(logging.DEBUG) or who.audits(header.key)
        if expects_response and not has_rate and not is_seen:
            assert self._client is not None
            self.passed.remember(header, frame, self.api, self._client, self.client_id)
        return Forward(header, expects_response, throttle)

    def remember(self, frame: memoryview, ask: Ask, framed: Callable[[Ask], bytearray]) -> None:
        """Remembers an old fetch (`frame`, with its length) and its request to the cluster."""
        if LOG.isEnabledFor(logging.DEBUG) or is_checked(self.identity.access, ApiKey.Fetch):
            return
        header, client = headers.parse(frame[CORRELATION_SIZE:]), self._client
        assert client is not None
        user = User(client, self.client_id, self.identity.principal)
        policy_of = self._translator.policies(self._names(header))
        self.repeated.remember(frame, header, ask, framed, policy_of, user)

    # --- identity

    @property
    def is_settled(self) -> bool:
        """Whether the client's identity and the cluster's versions are known, and no rate applies
        to the client's fetches."""
        is_known = self._cluster is not None and self.identity.identified is not None
        return is_known and not self.identity.has_fetch_rate

    def _versions_before_login(self, header: Header, frame: memoryview) -> Reply:
        """Answers the ApiVersions of an unidentified client, from the last response of any
        broker."""
        if self.shared.topology.api_versions is None:
            return HangUp("the cluster has not yet said what it serves")
        self._cluster, known = self.shared.topology.api_versions, self._cluster
        self._versions = self._versions_of(self._cluster)
        try:
            return self._api_versions(header, frame)
        finally:
            self._cluster = known

    # --- the cluster

    def _take_api_versions(self, answer: Message) -> None:
        if answer.error_code:
            raise BadRequestError(f"the cluster answers ApiVersions with error {answer.error_code}")
        self._versions = self._versions_of(answer)
        if ApiKey.ApiVersions not in self._versions.offered:
            raise BadRequestError("the cluster does not list ApiVersions among its APIs")
        self._cluster = self.shared.topology.set_api_versions(answer)
        self._translator = Translator(
            self.shared, self._versions, self.identity.access, self.advertised
        )

    def _versions_of(self, answer: Message) -> Versions:
        return Versions.of(
            answer,
            is_read_only=self.identity.access.is_read_only,
            has_lists=self.identity.access.is_closed,
            hides_sasl=self._login is not None or self.identity.credentials is not None,
            logs_in=self._login is not None,
        )

    def _count(self, header: Header, now: float, passes: bool) -> None:
        client_id = header.client_id or ""
        self.api = headers.NAMES.get(header.key, OTHER)
        is_translated = not passes and header.api is not ApiKey.ApiVersions
        census = self.shared.census
        who = self.identity
        # Its principal does not change either, while the rule is the same.
        seen = header.key, header.version, client_id, self.software, who.identified
        if self._client is not None and seen == self._seen:
            census.count_again(self._client, now, translated=is_translated)
        else:
            client = ClientKey(
                *(client_id, self.software, self.address, header.api_name, header.version),
                principal=who.principal,
                rule="" if who.rule is None else f"rule {who.rule}",
                tls=self._tls,
            )
            self.rule = client.rule
            self._client, self._seen = census.count(client, now, translated=is_translated), seen
        if LOG.isEnabledFor(logging.DEBUG):
            how = "is translated" if is_translated else "passes"
            trace = trace_id(who.connection), self.begun
            fields = {"client": self.address, "client_id": self.client_id}
            fields |= {"software": self.software, "request": header.name, "translation": how}
            text = "client %s: %s %s [client id %r, connection %s, request %d]"
            values = self.address, header.name, how, self.client_id, *trace
            traced = {"connection": trace[0], "number": trace[1]}
            LOG.debug(text, *values, extra={"fields": fields | traced})

    def sent(self, send: ResponseSend) -> None:
        """Counts the conversions of a response that has been sent."""
        if self._client is None:
            return
        is_recoded = sent.count(send, self.shared.census, self._client)
        if is_recoded and self._read is not None:
            body, now = self._read
            self.shared.last_old.add_request(body, self.identity.principal, now)
        self._read = None

    def _api_versions(self, header: Header, frame: memoryview) -> Reply:
        assert self._cluster is not None
        offered = self._versions.offered[ApiKey.ApiVersions]
        if header.version not in offered:
            return versions_unsupported(header, offered)
        body = decode("ApiVersionsRequest", header.version, frame[header.size :])
        if not is_valid(body, header.version):
            refusal = Message(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
            return self._answered(header, refusal)
        self.software = software_of(body)
        encoded = self._versions.body(self._cluster, self.software, header.version)
        return Response(encoded_response(request_header(header), encoded))

    # --- requests that the cluster takes

    def _expects_response(self, header: Header, frame: memoryview) -> bool:
        return (
            header.api is not ApiKey.Produce
            or producing.acks(frame, header.size, header.version) != 0
        )

    def _names(self, header: Header) -> tuple[str, ...]:
        """The names by which rules know the client."""
        named = (self.software.replace(" ", "/"),) if self.software else ()
        return (*named, header.client_id or "")

    # --- requests whose fields are read

    def _answered(
        self, header: Header, answer: Message | HangUp | None, body: Message | None = None
    ) -> Reply:
        """The reply with this response. `body`: the request, if it was read."""
        if isinstance(answer, HangUp):
            return answer
        if answer is None:
            return Nothing()
        request = request_header(header)
        send, errors = response(request, answer), error_codes(request.api, answer)
        self.identity.audit(request.api, body, answer, errors)
        access = self.identity.access
        if not access.has_rates:
            # The response does not refer to the message, which would stay in memory while a slow
            # client reads.
            return Response(send, errors=errors)
        return Response(send, throttled=partial(throttled, request, answer), errors=errors)

    def _body(self, header: Header, frame: memoryview, size: int) -> Reading:
        if len(frame) < size:
            frame = yield Whole()
        while not self.identity.memory.may_be_handled():
            yield NO_MEMORY
        request = parse_body(request_header(header), frame)
        body = request.body
        if not self.identity.memory.charge(request.elements) and header.api is ApiKey.Fetch:
            body.max_wait_ms = 0  # or others would wait for its memory
        if header.api is ApiKey.Metadata and header.version == 0:
            body.topics = body.topics or None  # v0: an empty list means all topics, later: none
        return body

    # --- requests that are refused

    def _refuse(self, header: Header, frame: memoryview, size: int) -> Steps:
        """Answers a produce of a read-only client with an error. Any other request ends
        the connection."""
        if header.api is ApiKey.Produce and self.identity.access.is_read_only:
            body = yield from self._body(header, frame, size)
            return self._refused(header, body, permissions.refused_writes(body))
        return HangUp(f"{header.name} is not served here")

    def _followers_refused(self, header: Header, frame: memoryview, size: int) -> Checks:
        """Refuses a client that claims to be a broker, because the cluster would treat it as a
        follower. Returns None for a consumer."""
        api, version = header.api, header.version
        if api is None or version > schema(f"{api.name}Request").newest:
            return None  # refused later for its version
        if len(frame) < min(size, header.size + replica_ids.REPLICA_ID.size) or (
            len(frame) < size and replica_ids.is_last(api, version)
        ):
            frame = yield Whole()
        if replica_ids.of_frame(api, version, frame[header.size :]) in replica_ids.CONSUMERS:
            return None
        body = yield from self._body(header, frame, size)
        if not body.topics and api is not ApiKey.Fetch:
            return None  # it names no topic; a fetch may still continue a session
        return self._answered(header, replica_ids.refusal(api, body), body)

    def _permitted(self, header: Header, frame: memoryview, size: int, now: float) -> Steps:
        """Sends the permitted part of a request to the cluster, and returns the permitted part of
        the response."""
        api, version, access = header.api, header.version, self.identity.access
        assert api is not None, "only what is known is offered where there are lists"
        body = yield from self._body(header, frame, size)
        topics: list[Message] = []
        question = permissions.question(api, version, body)
        # If the cluster does not return a topic's name, the topic is denied.
        if question is not None and self._versions.serves(ApiKey.Metadata, question[0]):
            topics = (yield Ask(ApiKey.Metadata, *question)).topics
        permission = Permission(access, api, version, body, topics)
        if permission.refusal is not None:
            return self._refused(header, body, permission.refusal)
        answer = yield from self._ask(header, body, now)
        if api is ApiKey.Produce and not body.acks and not permission.takes_all:
            return self._refused(header, body, Message())  # the cluster has got the allowed part
        if isinstance(answer, Message):
            permission.complete(answer)
        return self._answered(header, answer, body)

    def _ask(
        self, header: Header, body: Message, now: float
    ) -> Generator[Ask | Turn, Message, Message | HangUp | None]:
        """Sends a parsed request to the cluster. Returns the client's response."""
        self._read = None
        if not self._versions.passes(header.key, header.version):
            self.shared.last_old.add_request(body, self.identity.principal, now)
        elif header.api is ApiKey.Fetch:
            self._read = body, now  # the fetch needs the gateway if its records get another codec
        return self._translator.ask(header, body, now, self._names(header))

    def _refused(self, header: Header, body: Message, answer: Message) -> Reply:
        if header.api is ApiKey.Produce and body.acks == 0:
            return HangUp("a produce with acks=0 is not allowed here")
        return self._answered(header, answer, body)
