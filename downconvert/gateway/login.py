"""SASL at the gateway's own listener: a client says who it is before it may ask anything else.

PLAIN and SCRAM, in all versions of SaslHandshake and SaslAuthenticate, and tokens without a header
after a handshake of version 0. The order of responses is Kafka's.

Not here: who the users are (identity.py), clients that log in to the cluster through the gateway
(relay.py)."""

from collections.abc import Generator

from downconvert.broker.access.failed_logins import FailedLogins
from downconvert.broker.credentials import MECHANISMS, Authentication, AuthenticationError
from downconvert.broker.credentials import Credentials as Users
from downconvert.broker.errors import ErrorCode
from downconvert.broker.wire.decoder import decode
from downconvert.broker.wire.responses import ResponseSend
from downconvert.broker.wire.schemas import ApiKey, Message

from .answering import answered, raw_token, whole
from .exchanges import TURN, Answer, Ask, HangUp, Pause, Reply, Turn, Whole
from .headers import Header
from .versions import LOGIN

Taken = Generator[Ask | Whole | Turn | Pause, memoryview, Reply]


class Login:
    """Of one connection. `user` is None until it is proved."""

    def __init__(self, users: Users, address: str, failed: FailedLogins) -> None:
        self.user: str | None = None
        self._users = users
        self._address = address
        self._failed = failed
        self._authentication: Authentication | None = None

    @property
    def expects_token(self) -> bool:
        """Whether the next frame is a token without a header."""
        return self._authentication is not None and self._authentication.is_raw

    def handle(self, header: Header, frame: memoryview, size: int, now: float) -> Taken:
        """SaslHandshake, or SaslAuthenticate."""
        assert header.api is not None
        if header.version not in LOGIN[header.api]:
            return HangUp(f"{header.name} is not served here")
        frame = yield from whole(frame, size)
        body = decode(f"{header.api.name}Request", header.version, frame[header.size :])
        if header.api is ApiKey.SaslHandshake:
            return self._handshake(header, body.mechanism)
        if self._authentication is None or self._authentication.is_raw:
            text = "SaslAuthenticate without a handshake"
            code = ErrorCode.ILLEGAL_SASL_STATE
            return _authenticated(header, code, text, b"", ends=text)
        try:
            token = yield from self._take(bytes(body.auth_bytes), now)
        except AuthenticationError as error:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            return _authenticated(header, code, str(error), b"", ends=_failed(error))
        return _authenticated(header, ErrorCode.NONE, None, token)

    def take_raw(self, frame: memoryview, size: int, now: float) -> Taken:
        """A token without a header. A failure can only be reported by closing the connection."""
        frame = yield from whole(frame, size)
        try:
            token = yield from self._take(bytes(frame), now)
        except AuthenticationError as error:
            return HangUp(_failed(error), is_login=True)
        return Answer(ResponseSend([raw_token(token)]))

    def _handshake(self, header: Header, mechanism: str) -> Reply:
        if self.user is not None:
            body = Message(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
            return answered(header, body)
        body = Message(error_code=ErrorCode.NONE, mechanisms=list(MECHANISMS))
        if mechanism not in MECHANISMS:
            body.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return answered(header, body, ends=f"SASL mechanism {mechanism!r:.50} is not known")
        is_raw = header.version == 0
        self._authentication = Authentication(self._users, mechanism, is_raw=is_raw)
        return answered(header, body)

    def _take(
        self, token: bytes, now: float
    ) -> Generator[Ask | Whole | Turn | Pause, memoryview, bytes]:
        """The token to answer with. AuthenticationError, after the delay that failed logins get."""
        assert self._authentication is not None
        wait = self._failed.wait(self._address, now)
        if wait:
            yield Pause(wait)
        yield TURN  # thousands of rounds of hashing
        try:
            answer, user = self._authentication.take(token)
        except AuthenticationError:
            self._authentication = None
            self._failed.add(self._address, now + wait)
            raise
        if user is not None:
            self.user, self._authentication = user, None
        return answer


def _authenticated(
    header: Header, code: int, text: str | None, token: bytes, *, ends: str | None = None
) -> Reply:
    body = Message(error_code=code, error_message=text, auth_bytes=token)
    return answered(header, body, ends=ends, is_login=ends is not None)


def _failed(error: AuthenticationError) -> str:
    return f"failed login: {error}"
