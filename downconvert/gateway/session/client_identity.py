"""The identity of a connection's client: what it has proved, and which rule matches.

Once the client is identified, the connection counts towards its limits, and its requests are
charged to its rates.

Not here: its login (login.py), the rules (access/identity.py), the rights that a rule grants
(access/permissions.py)."""

from collections.abc import Generator, Mapping
from typing import Any, Final

from downconvert.access.admissions import OverLimitError
from downconvert.access.audited import CHANGES
from downconvert.access.audited_requests import requested
from downconvert.access.credentials import Proved
from downconvert.access.identity import principal_of
from downconvert.access.rights import Access
from downconvert.gateway.audit import trace_id
from downconvert.gateway.identity import Identified
from downconvert.gateway.security import Credentials
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from downconvert.serving.request_memory import OneRequest

from .exchanges import HangUp, Pause, Reply, ThrottleField, Whole
from .headers import Header
from .login import Login
from .shared import Shared

THROTTLED_SINCE: Final = 1  # the first Produce and Fetch with throttle_time_ms in the response
CORRELATION_SIZE: Final = 4
PRODUCE: Final = ApiKey.Produce.name
FETCH: Final = ApiKey.Fetch.name


class ClientIdentity:
    """The identity of one connection's client. `address`: of the client. `certificate`: the name in
    its certificate.

    `memory`: of the request under way. `identified`: the client's rule; None: not yet known.
    `proved`: the result of the login; None: the client has not logged in. `login`: None if no users
    are configured. `over_limit`: why the connection is refused; empty: it is not."""

    __slots__ = (
        *("_counted", "_login_memory", "_request_memory", "_shared", "address", "certificate"),
        *("connection", "identified", "login", "memory", "over_limit", "proved"),
    )

    def __init__(self, shared: Shared, address: str, certificate: str | None) -> None:
        config = shared.config
        self._shared = shared
        self.address = address
        self.certificate = certificate
        self.connection = 0  # its number, for logs
        self.login = (
            Login(config.identities, address, shared.failed_logins)
            if config.identities.mechanisms
            else None
        )
        self.identified: Identified | None = None if config.identities.is_needed else config.default
        self.proved: Proved | None = None
        self._request_memory = self._login_memory = shared.requests.of(address)
        if self.identified is None:
            self._login_memory = shared.logins.of(address)
        self.memory: OneRequest = self._login_memory
        self.over_limit = ""
        self._counted: str | None = None  # the name that the connection counts for

    def begin_request(self) -> None:
        """Called before each request. Its memory depends on whether the client is identified."""
        self.memory = self._login_memory if self.identified is None else self._request_memory

    @property
    def access(self) -> Access:
        """The client's rights."""
        return (self.identified or self._shared.config.default).access

    @property
    def credentials(self) -> Credentials | None:
        """The credentials at the cluster for this client's requests."""
        return (self.identified or self._shared.config.default).credentials

    @property
    def name(self) -> str:
        """The client's name or address, which identifies its rates."""
        return (self.identified.name if self.identified is not None else "") or self.address

    @property
    def rule(self) -> int | None:
        """The number of its rule, from 1 on; None: none has matched."""
        return None if self.identified is None else self.identified.rule

    @property
    def principal(self) -> str:
        """The client's principal, for logs. Empty: it has proved nothing and matches no rule."""
        user = None if self.proved is None else self.proved.name
        return principal_of(user, self.certificate, self.rule)

    @property
    def claimed(self) -> str:
        """The user name of its last login, proved or not."""
        return "" if self.login is None else self.login.claimed

    @property
    def refusal(self) -> str:
        """Why a login failed, if the client was told so. The client may then close the connection
        without a response."""
        return "" if self.login is None else self.login.refusal

    def audits(self, key: int) -> bool:
        """Whether the audit gets a line for each of the client's requests of this API."""
        return key in CHANGES and self._shared.audit.is_on

    def audit(
        self, api: ApiKey, body: Message | None, response: Message, errors: Mapping[int, int]
    ) -> None:
        """Writes the changes and denials of a response with these errors to the audit."""
        if (errors or api in CHANGES) and self._shared.audit.is_on:
            self._shared.audit.answered(self._fields, api, body, response, errors)

    def audit_passed_on(
        self, header: Header, frame: memoryview, size: int
    ) -> Generator[Whole, Any, None]:
        """Writes to the audit that a request is passed on, if its API is audited. `frame`: the
        beginning of the request; `size`: of all of it."""
        if self.audits(header.key):
            whole = frame if len(frame) == size else (yield Whole())
            api = CHANGES[header.key]
            named = requested(api, header.version, whole, header.size)
            self._shared.audit.passed_on(self._fields, api, named)

    @property
    def _fields(self) -> dict[str, object]:
        """The client's fields in a line of the audit."""
        return {
            "client": self.address,
            "principal": self.principal,
            "rule": self.rule,
            "connection": trace_id(self.connection),
        }

    def has_expired(self, now: float) -> bool:
        """Whether its login is no longer valid. `now`: the time of day."""
        return self.login is not None and self.login.is_over(now)

    def find(self) -> bool:
        """Finds the rule of a client that does not log in. Returns whether one matches."""
        self.identified = self._matching(None)
        return self.identified is not None

    @property
    def has_fetch_rate(self) -> bool:
        """Whether a rate applies to its fetches."""
        access = self.access
        return access.consumer_byte_rate is not None or access.request_percentage is not None

    @property
    def is_timed(self) -> bool:
        """Whether its requests have a limit of processor time."""
        return self.access.request_percentage is not None

    def throttle_field(self, header: Header) -> ThrottleField | None:
        """The position of a fetch's throttle time. None: no rate applies, or no such field."""
        has_field = header.api is ApiKey.Fetch and header.version >= THROTTLED_SINCE
        if header.api is None or not has_field or not self.has_fetch_rate:
            return None
        return ThrottleField(CORRELATION_SIZE + is_flexible(header.api, header.version))

    def throttles_at_the_end(self, header: Header) -> bool:
        """Whether the request is a produce of a client with a rate. The gateway makes its response,
        because the throttle time comes after fields of variable size."""
        has_rate = self.access.producer_byte_rate is not None or self.is_timed
        return header.api is ApiKey.Produce and has_rate and header.version >= THROTTLED_SINCE

    @property
    def keeps_place(self) -> bool:
        """Whether its connection keeps its place when other clients connect."""
        return self.identified is not None and not self.over_limit

    def admit(self, now: float) -> Generator[Pause, None, None]:
        """Counts the connection of an identified client, once. Waits if the client makes
        connections too fast. May set `over_limit`."""
        if self._counted is not None or self.over_limit:
            return
        try:
            wait = self._shared.admissions.enter(self.name, self.access, now)
        except OverLimitError as error:
            self.over_limit = str(error)
            return
        self._counted = self.name
        if wait:
            yield Pause(wait)

    def release(self) -> None:
        """The connection has ended."""
        if self.memory.taken:
            self.memory.release()
        if self._counted is not None:
            self._shared.admissions.leave(self._counted)
            self._counted = None

    def charge(self, api: str, received: int, sent: int, spent: float, now: float) -> float:
        """Charges to the client's rates a request of `received` bytes, its response of `sent`
        bytes, and `spent` seconds of the gateway's work. Returns the seconds for which the client
        is muted."""
        access, quotas, who, muted = self.access, self._shared.quotas, self.name, 0.0
        if api == PRODUCE and access.producer_byte_rate is not None:
            muted = quotas.charge(who, "produce", received, access.producer_byte_rate, now)
        if api == FETCH and access.consumer_byte_rate is not None:
            muted = quotas.charge(who, "fetch", sent, access.consumer_byte_rate, now)
        if access.request_percentage is not None:
            rate = access.request_percentage / 100
            muted = max(muted, quotas.charge(who, "request", spent, rate, now))
        return muted

    def logged_in(self, reply: Reply, now: float) -> Generator[Pause, None, Reply]:
        """Takes the login that `reply` answers, and returns the reply to send. If the user matches
        no rule, the login is valid but the client is refused."""
        assert self.login is not None
        proved = self.login.proved
        if proved is None or proved is self.proved:
            return reply
        if self.identified is not None and self.proved is None:
            return reply  # it keeps its former identity
        known, self.proved = self.identified, proved
        self.identified = self._matching(proved)
        if self.identified is None:
            return HangUp(f"user {proved.name!r:.100}, who matches no rule", is_login=True)
        if known is not None and known != self.identified:
            # The connection to the cluster and the offered versions depend on the former rights.
            return HangUp(f"user {proved.name!r:.100} has other rights now, and connects again")
        self._shared.audit.logged_in(self._fields)
        yield from self.admit(now)
        return reply

    def _matching(self, proved: Proved | None) -> Identified | None:
        config = self._shared.config
        user, groups = (None, ()) if proved is None else (proved.name, proved.groups)
        return config.identities.find(config.default, self.address, user, self.certificate, groups)
