"""SASL at the gateway's own listener: a client logs in before it may ask anything else.

Serves PLAIN, SCRAM and OAUTHBEARER, by all versions of SaslHandshake and SaslAuthenticate, and by
tokens without a header after a handshake of version 0. The order of responses is Kafka's. A client
whose token expires may log in again over the same connection [KIP-368].

Not here: the users (identity.py), clients that log in to the cluster through the gateway
(relay.py)."""

from collections.abc import Generator

from downconvert.access.credentials import (
    NOT_YET_SECONDS,
    TOKEN_SIZE_MAX,
    AuthenticationError,
    Proved,
    session_lifetime_ms,
)
from downconvert.access.delayed_login import DelayedLogin
from downconvert.access.failed_logins import FailedLogins
from downconvert.gateway.identity import Identities
from downconvert.protocol.decoder import decode
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message, schema
from downconvert.serving.series import NAME_MAX

from .answering import answered, raw_token, whole
from .exchanges import TURN, Ask, HangUp, Pause, Reply, Response, Turn, Whole
from .headers import Header
from .versions import LOGIN

Taken = Generator[Ask | Whole | Turn | Pause, memoryview, Reply]


class Login:
    """The login of one connection. `proved` is None until the client has proved its identity."""

    def __init__(self, identities: Identities, address: str, failed: FailedLogins) -> None:
        self.proved: Proved | None = None
        self.claimed = ""  # the user of the last login, proved or not
        self.refusal = ""  # why the last token failed; the client has been told
        self._identities = identities
        self._address = address
        self._failed = failed
        self._login: DelayedLogin | None = None

    @property
    def expects_token(self) -> bool:
        """Whether the next frame is a token without a header."""
        return self._login is not None and self._login.is_raw

    def takes(self, header: Header) -> bool:
        """Whether the request is to be handled here."""
        return header.api in LOGIN or (header.api is ApiKey.ApiVersions and self._login is not None)

    def is_over(self, now: float) -> bool:
        """Whether the client's login has expired. `now`: the time of day."""
        return (
            self.proved is not None
            and self.proved.expires_at is not None
            and self.proved.expires_at <= now
        )

    def handle(self, header: Header, frame: memoryview, size: int, now: float) -> Taken:
        """Handles SaslHandshake, SaslAuthenticate, or ApiVersions in the middle of a login."""
        assert header.api is not None
        if header.api is ApiKey.ApiVersions:
            return _versions_refused(header)
        if header.version not in LOGIN[header.api]:
            return HangUp(f"{header.name} is not served here")
        if size > TOKEN_SIZE_MAX:
            return HangUp(f"{header.name} of {size} bytes", is_login=True)
        frame = yield from whole(frame, size)
        body = decode(f"{header.api.name}Request", header.version, frame[header.size :])
        if header.api is ApiKey.SaslHandshake:
            return self._handshake(header, body.mechanism)
        if self._login is None:
            text = "SaslAuthenticate without a handshake"
            code = ErrorCode.ILLEGAL_SASL_STATE
            return _authenticated(header, code, text, b"", ends=None if self.proved else text)
        try:
            token, lifetime = yield from self._take(bytes(body.auth_bytes), now)
        except AuthenticationError as error:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return _authenticated(header, code, str(error), b"", ends=_failed(error))
        return _authenticated(header, ErrorCode.NONE, None, token, lifetime)

    def take_raw(self, frame: memoryview, size: int, now: float) -> Taken:
        """Handles a token without a header. Closing the connection is the only way to report a
        failure."""
        if size > TOKEN_SIZE_MAX:
            return HangUp(f"a token of {size} bytes", is_login=True)
        frame = yield from whole(frame, size)
        try:
            token, _ = yield from self._take(bytes(frame), now)
        except AuthenticationError as error:
            return HangUp(_failed(error), is_login=True)
        return Response(ResponseSend([raw_token(token)]))

    def _handshake(self, header: Header, mechanism: str) -> Reply:
        if self._login is not None:
            body = Message(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
            ends = HangUp(f"{header.name} in the middle of a login", is_login=True)
            return answered(header, body, ends=ends)
        if self.proved is not None and self.proved.expires_at is None:
            body = Message(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
            return answered(header, body)
        mechanisms = self._identities.mechanisms
        body = Message(error_code=ErrorCode.NONE, mechanisms=list(mechanisms))
        if mechanism not in mechanisms:
            body.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            ends = HangUp(f"SASL mechanism {mechanism!r:.50} is not known")
            return answered(header, body, ends=ends)
        is_raw = header.version == 0
        self._login = self._identities.login(mechanism, self._failed, self._address, is_raw=is_raw)
        return answered(header, body)

    def _take(
        self, token: bytes, now: float
    ) -> Generator[Ask | Whole | Turn | Pause, memoryview, tuple[bytes, int]]:
        """Returns the token to answer with and the session's lifetime in ms (0: unlimited).
        AuthenticationError, raised after the delay for failed logins: the login failed."""
        login = self._login
        assert login is not None
        wait = login.begin(token, now)
        self.claimed = login.claimed[:NAME_MAX]
        if wait:
            yield Pause(wait)
            now += wait
        try:
            while True:
                yield TURN  # thousands of rounds of hashing, or a signature
                taken = login.take(token, now, now, self._check_same)
                if taken is not None:
                    break
                yield Pause(NOT_YET_SECONDS)
                now += NOT_YET_SECONDS
        except AuthenticationError:
            self._login = None
            raise
        self.refusal = login.refusal
        if isinstance(taken, bytes):
            return taken, 0
        self.proved, self._login = taken, None
        return taken.response, session_lifetime_ms(taken, now)

    def _check_same(self, proved: Proved) -> None:
        """AuthenticationError: another user logs in on the same connection."""
        proved.check_same(self.proved)


def _versions_refused(header: Header) -> Reply:
    """Refuses ApiVersions as Kafka does [SaslServerAuthenticator]."""
    is_known = 0 <= header.version <= schema("ApiVersionsRequest").newest
    body = Message(error_code=ErrorCode.ILLEGAL_SASL_STATE, api_keys=[])
    ends = HangUp(f"{header.name} in the middle of a login", is_login=True)
    return answered(header, body, version=None if is_known else 0, ends=ends)


def _authenticated(
    header: Header,
    code: int,
    text: str | None,
    token: bytes,
    lifetime: int = 0,
    *,
    ends: str | None = None,
) -> Reply:
    body = Message(
        error_code=code, error_message=text, auth_bytes=token, session_lifetime_ms=lifetime
    )
    hang_up = None if ends is None else HangUp(ends, is_login=True)
    return answered(header, body, ends=hang_up)


def _failed(error: AuthenticationError) -> str:
    return f"failed login: {error.why}"
