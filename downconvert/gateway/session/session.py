"""One client's connection: decides what is done with each of its requests.

A request is forwarded as it is, answered here, or translated (translation.py, fetching.py,
recoding.py, producing.py)."""

import logging
from collections.abc import Generator
from functools import partial
from typing import Any, Final

from downconvert.broker.access import permissions, replica_ids
from downconvert.broker.access.guard import is_checked
from downconvert.broker.access.identity import principal_of
from downconvert.broker.access.permissions import Permission
from downconvert.broker.access.rights import Access
from downconvert.broker.credentials import Proved
from downconvert.broker.errors import BadRequestError, ErrorCode
from downconvert.broker.series import NAME_MAX
from downconvert.broker.software import is_valid, software_of
from downconvert.broker.wire.decoder import decode
from downconvert.broker.wire.error_codes import error_codes
from downconvert.broker.wire.responses import ResponseSend, response, throttled
from downconvert.broker.wire.schemas import ApiKey, Message, is_flexible, schema
from records.logged import log_of

from . import headers, producing, sent
from .advertised import Advertised
from .answering import request_header
from .census import ClientKey
from .exchanges import (
    HELLO,
    Answer,
    Ask,
    Forward,
    HangUp,
    Nothing,
    Reply,
    Steps,
    ThrottleField,
    Whole,
)
from .headers import Header
from .identity import Identified
from .login import Login
from .relay import Relay
from .security import Credentials
from .shared import Shared
from .topology import WITH_ADDRESSES
from .translator import Translator
from .versions import AUTHENTICATION, Versions

LOG: Final = log_of(__name__)
PRODUCE_WITH_ENDPOINTS: Final = 10
THROTTLED_SINCE: Final = 1  # versions of Produce and of Fetch whose answers have throttle_time_ms
CORRELATION_SIZE: Final = 4
OTHER: Final = "other"
PRODUCE: Final = ApiKey.Produce.name
FETCH: Final = ApiKey.Fetch.name


class Session:
    """A client and its connection to one broker of the cluster."""

    def __init__(
        self,
        shared: Shared,
        address: str,
        advertised: Advertised,
        certificate: str | None = None,
    ) -> None:
        self.shared = shared
        self.identified: Identified | None = (
            None  # None: it has to be identified before its first request
        )
        self._certificate = certificate  # the name in the client's
        self._proved: Proved | None = None  # what it has been identified by
        identities = shared.config.identities
        self._login = (
            Login(identities, address, shared.failed_logins) if identities.mechanisms else None
        )
        if not shared.config.identities.is_needed:
            self.identified = shared.config.default
        self.address = address  # the client's
        self.advertised = advertised  # where the client is told to find brokers
        self.software = ""
        self.client_id = ""
        self.api = OTHER  # of the last request: a name of which there are few
        self._cluster: Message | None = None  # what the broker said to ApiVersions
        self._versions: Versions
        self._translator: Translator
        self._relay = Relay()
        self._client: ClientKey | None = None

    def exchange(self, frame: memoryview, size: int, now: float) -> Steps:
        """Handles a request of `size` bytes, of which `frame` is the beginning or all.

        BadRequestError: the client sent no request, or the cluster no answer."""
        if self._login is not None and self._login.expects_token:
            return self._logged_in((yield from self._login.take_raw(frame, size, now)))
        if self._relay.expects_token:
            return (yield from self._relay.take(frame, size))
        header = headers.parse(frame)
        if self._login is not None and header.api in AUTHENTICATION:
            return self._logged_in((yield from self._login.handle(header, frame, size, now)))
        if self._login is not None and self._login.is_over(now):
            return HangUp("its token has expired, and it has not sent another", has_expired=True)
        if self.identified is None:
            if header.api is ApiKey.ApiVersions:
                return self._versions_before_login(header, frame)
            self.identified = self._find(None)
            if self.identified is None:
                return HangUp(f"{header.name} of a client that no rule is for", is_login=True)
        if self._cluster is None:
            self._learn((yield HELLO))
        passes = self._versions.passes(header.key, header.version)
        self._see(header, now, passes)
        if header.api is ApiKey.ApiVersions:
            return self._api_versions(header, frame)
        if header.api in replica_ids.SINCE:
            refused = yield from self._followers_refused(header, frame, size)
            if refused is not None:
                return refused
        if self.shared.config.is_observing:
            return Forward(header, self._expects_response(header, frame))
        offered = self._versions.offered.get(header.key)
        if offered is None or header.version not in offered:
            return (yield from self._refuse(header, frame, size))
        if header.api is ApiKey.SaslHandshake and header.version == 0:
            return (yield from self._relay.handshake(header, frame))
        if is_checked(self.access, header.key):
            return (yield from self._permitted(header, frame, size, now))
        if not passes or self._translator.may_be_recoded(header, self._names(header)):
            body = yield from self._body(header, frame, size)
            return self._answered(
                header, (yield from self._translator.ask(header, body, now, self._names(header)))
            )
        if not self._expects_response(header, frame):
            return Forward(header, expects_response=False)
        names_brokers = header.api is not None and _names_brokers(header.api, header.version)
        if names_brokers or self._says_how_long_at_its_end(header):
            assert header.api is not None
            answer = yield Ask(header.api, header.version, None)
            if names_brokers:
                self.shared.topology.rewrite(header.api, answer, self.advertised)
            return self._answered(header, answer)
        return Forward(header, throttle=self._throttle_field(header))

    # --- identity

    @property
    def access(self) -> Access:
        """What the client may do."""
        return (self.identified or self.shared.config.default).access

    @property
    def credentials(self) -> Credentials | None:
        """The credentials with which the cluster is asked for this client."""
        return (self.identified or self.shared.config.default).credentials

    @property
    def principal(self) -> str:
        """Who the client is, for logs; empty: it has shown nothing, and no rule is for it."""
        rule = None if self.identified is None else self.identified.rule
        user = None if self._proved is None else self._proved.name
        return principal_of(user, self._certificate, rule)

    @property
    def claimed(self) -> str:
        """The user of its last login, who it may not be."""
        return "" if self._login is None else self._login.claimed

    @property
    def refusal(self) -> str:
        """Why a login has failed that the client was told of; it may leave without a word."""
        return "" if self._login is None else self._login.refusal

    def charge(self, received: int, sent: int, now: float) -> float:
        """Seconds in which no further request is to be read: this one, of so many bytes, has an
        answer of so many, and its client has a rate."""
        access, quotas = self.access, self.shared.quotas
        who = (self.identified.name if self.identified is not None else "") or self.address
        if self.api == PRODUCE and access.producer_byte_rate is not None:
            return quotas.charge(who, "produce", received, access.producer_byte_rate, now)
        if self.api == FETCH and access.consumer_byte_rate is not None:
            return quotas.charge(who, "fetch", sent, access.consumer_byte_rate, now)
        return 0.0

    def _find(self, proved: Proved | None) -> Identified | None:
        config = self.shared.config
        user, groups = (None, ()) if proved is None else (proved.name, proved.groups)
        return config.identities.find(config.default, self.address, user, self._certificate, groups)

    def _logged_in(self, reply: Reply) -> Reply:
        """A user that no rule matches is logged in, and refused."""
        assert self._login is not None
        proved = self._login.proved
        if proved is None or proved is self._proved:
            return reply
        if self.identified is not None and self._proved is None:
            return reply  # it goes on as who it was before
        known, self._proved = self.identified, proved
        self.identified = self._find(proved)
        if self.identified is None:
            return HangUp(f"user {proved.name!r:.100}, whom no rule is for", is_login=True)
        if known is not None and known != self.identified:
            # Its connection to the cluster, and what it was offered, are those of the former.
            return HangUp(f"user {proved.name!r:.100} has other rights now, and connects again")
        return reply

    def _versions_before_login(self, header: Header, frame: memoryview) -> Reply:
        """From the last response of any broker: no broker is asked for an unidentified client."""
        if self.shared.topology.hello is None:
            return HangUp("the cluster has not yet said what it serves")
        self._cluster, known = self.shared.topology.hello, self._cluster
        self._versions = self._versions_of(self._cluster)
        try:
            return self._api_versions(header, frame)
        finally:
            self._cluster = known

    # --- the cluster

    def _learn(self, answer: Message) -> None:
        if answer.error_code:
            raise BadRequestError(f"the cluster answers ApiVersions with error {answer.error_code}")
        self._versions = self._versions_of(answer)
        if ApiKey.ApiVersions not in self._versions.offered:
            raise BadRequestError("the cluster does not say that it can say what it serves")
        self._cluster = self.shared.topology.hear(answer)
        self._translator = Translator(self.shared, self._versions, self.access, self.advertised)

    def _versions_of(self, answer: Message) -> Versions:
        return Versions.of(
            answer,
            is_read_only=self.access.is_read_only,
            has_lists=self.access.is_closed,
            hides_sasl=self._login is not None or self.credentials is not None,
            logs_in=self._login is not None,
        )

    def _see(self, header: Header, now: float, passes: bool) -> None:
        client_id = header.client_id or ""
        self.client_id = client_id[:NAME_MAX]
        self.api = headers.NAMES.get(header.key, OTHER)
        rule = None if self.identified is None else self.identified.rule
        client = ClientKey(
            *(client_id, self.software, self.address, header.api_name, header.version),
            principal=self.principal,
            rule="" if rule is None else f"rule {rule}",
        )
        is_translated = not passes and header.api is not ApiKey.ApiVersions
        self._client = self.shared.census.see(client, now, translated=is_translated)
        if LOG.isEnabledFor(logging.DEBUG):
            how = "is translated" if is_translated else "passes"
            fields = {
                "client": self.address,
                "client_id": self.client_id,
                "software": self.software,
            }
            fields |= {"request": header.name, "translation": how}
            LOG.debug(
                "client %s: %s %s [client id %r]",
                self.address,
                header.name,
                how,
                self.client_id,
                extra={"fields": fields},
            )

    def sent(self, send: ResponseSend) -> None:
        """A response of this session has been sent: counts what was converted for it."""
        if self._client is not None:
            sent.count(send, self.shared.census, self._client)

    def _api_versions(self, header: Header, frame: memoryview) -> Reply:
        assert self._cluster is not None
        offered = self._versions.offered[ApiKey.ApiVersions]
        if header.version not in offered:
            answer = Message(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[
                    Message(
                        api_key=ApiKey.ApiVersions,
                        min_version=offered.start,
                        max_version=offered.stop - 1,
                    )
                ],
            )
            return Answer(response(request_header(header), answer, version=0))
        body = decode("ApiVersionsRequest", header.version, frame[header.size :])
        if not is_valid(body, header.version):
            refusal = Message(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
            return self._answered(header, refusal)
        self.software = software_of(body)
        answer = self._versions.answer(self._cluster, self.software)
        return Answer(response(request_header(header), answer))

    # --- requests that the cluster takes

    def _expects_response(self, header: Header, frame: memoryview) -> bool:
        return (
            header.api is not ApiKey.Produce
            or producing.acks(frame, header.size, header.version) != 0
        )

    def _says_how_long_at_its_end(self, header: Header) -> bool:
        """Whether the answer is one to a produce whose client may have to wait: it is made here,
        since where it says so depends on all that it says before."""
        has_rate = self.access.producer_byte_rate is not None
        return header.api is ApiKey.Produce and has_rate and header.version >= THROTTLED_SINCE

    def _throttle_field(self, header: Header) -> ThrottleField | None:
        """Where the answer to a fetch says it, if its client may have to wait."""
        has_rate = self.access.consumer_byte_rate is not None
        if header.api is not ApiKey.Fetch or not has_rate or header.version < THROTTLED_SINCE:
            return None
        return ThrottleField(CORRELATION_SIZE + is_flexible(header.api, header.version))

    def _names(self, header: Header) -> tuple[str, ...]:
        """The names by which rules know the client."""
        named = (self.software.replace(" ", "/"),) if self.software else ()
        return (*named, header.client_id or "")

    # --- requests whose fields are read

    def _answered(self, header: Header, answer: Message | HangUp | None) -> Reply:
        if isinstance(answer, HangUp):
            return answer
        if answer is None:
            return Nothing()
        request = request_header(header)
        send, errors = response(request, answer), error_codes(request.api, answer)
        if self.access.producer_byte_rate is None and self.access.consumer_byte_rate is None:
            # Without the message, which would be kept while a slow client reads.
            return Answer(send, errors=errors)
        return Answer(send, throttled=partial(throttled, request, answer), errors=errors)

    def _body(
        self, header: Header, frame: memoryview, size: int
    ) -> Generator[Ask | Whole, Any, Message]:
        assert header.api is not None
        if len(frame) < size:
            frame = yield Whole()
        body = decode(f"{header.api.name}Request", header.version, frame[header.size :])
        if header.api is ApiKey.Metadata and header.version == 0:
            body.topics = body.topics or None  # an empty list means all, and in later versions none
        return body

    # --- requests that are refused

    def _refuse(self, header: Header, frame: memoryview, size: int) -> Steps:
        """Refuses a write with an error to who may only read; else closes."""
        served = self._versions.cluster.get(header.key)
        if header.api is ApiKey.Produce and served is not None and self.access.is_read_only:
            body = yield from self._body(header, frame, size)
            return self._refused(header, body, permissions.refused_writes(body))
        return HangUp(f"{header.name} is not served here")

    def _followers_refused(
        self, header: Header, frame: memoryview, size: int
    ) -> Generator[Ask | Whole, Any, Reply | None]:
        """Refuses who claims to be a broker: the cluster would take its fetches for copies that a
        follower has. None: it is a consumer."""
        api, version = header.api, header.version
        if api is None or version > schema(f"{api.name}Request").newest:
            return None  # which is refused for that
        if len(frame) < min(size, header.size + replica_ids.REPLICA_ID.size) or (
            len(frame) < size and replica_ids.is_last(api, version)
        ):
            frame = yield Whole()
        if replica_ids.of_frame(api, version, frame[header.size :]) in replica_ids.CONSUMERS:
            return None
        body = yield from self._body(header, frame, size)
        if not body.topics and api is not ApiKey.Fetch:
            return None  # it asks about nothing; a fetch may go on with a session
        return self._answered(header, replica_ids.refusal(api, body))

    def _permitted(self, header: Header, frame: memoryview, size: int, now: float) -> Steps:
        """Asks the cluster for what the client may name, and returns what it may see."""
        api, version, access = header.api, header.version, self.access
        assert api is not None, "only what is known is offered where there are lists"
        body = yield from self._body(header, frame, size)
        topics: list[Message] = []
        question = permissions.question(api, version, body)
        # What a cluster does not tell the names of is not allowed.
        if question is not None and self._versions.serves(ApiKey.Metadata, question[0]):
            topics = (yield Ask(ApiKey.Metadata, *question)).topics
        permission = Permission(access, api, version, body, topics)
        if permission.refusal is not None:
            return self._refused(header, body, permission.refusal)
        if api is ApiKey.Produce and not body.acks and not permission.takes_all:
            return self._refused(header, body, Message())
        answer = yield from self._translator.ask(header, body, now, self._names(header))
        if isinstance(answer, Message):
            permission.complete(answer)
        return self._answered(header, answer)

    def _refused(self, header: Header, body: Message, answer: Message) -> Reply:
        if header.api is ApiKey.Produce and body.acks == 0:
            return HangUp("a produce with acks=0 is not allowed here")
        return self._answered(header, answer)


def _names_brokers(api: ApiKey, version: int) -> bool:
    """Whether the answer holds addresses."""
    if api is ApiKey.Produce:
        return version >= PRODUCE_WITH_ENDPOINTS
    return api in WITH_ADDRESSES
