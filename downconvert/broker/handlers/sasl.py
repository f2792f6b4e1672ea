"""Authentication: SaslHandshake and SaslAuthenticate, and the tokens without a header that follow a
handshake of version 0.

What is answered when is Kafka's [SaslServerAuthenticator]: before authentication no other request
is answered, and a client that fails is disconnected. After a failure the next token of that address
waits before it is looked at.

Not here: the mechanisms, and the users (credentials.py); who may do what (access)."""

from collections.abc import Callable
from typing import Final

from downconvert.broker.credentials import MECHANISMS, Authentication, AuthenticationError
from downconvert.broker.endings import End
from downconvert.broker.errors import ErrorCode
from downconvert.broker.exchange import Client, Exchange
from downconvert.broker.owner import Owner
from downconvert.broker.state import BrokerState
from downconvert.broker.wire.requests import Request, RequestHeader
from downconvert.broker.wire.schemas import ApiKey, Message

BEFORE: Final = (ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate)
REQUEST_SIZE_MAX: Final = 524_288  # bytes before authentication [sasl.server.max.receive.size]
RAW_VERSION: Final = 0  # of a handshake: tokens follow as they are
STATE: Final = "sasl"  # where a client keeps its authentication


def handshake(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    """SaslHandshake: a mechanism is chosen."""
    client, mechanism = exchange.client, exchange.request.body.mechanism
    users = broker.guard.identities.users
    if users is None or client.principal is not None:
        exchange.reply(Message(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))
        return
    known = mechanism in MECHANISMS
    if known:
        is_raw = exchange.request.version == RAW_VERSION
        client.state[STATE] = Authentication(users, mechanism, is_raw=is_raw)
    else:
        exchange.close(f"SASL mechanism {mechanism!r:.50} is not known", End.LOGIN)
    code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    exchange.reply(Message(error_code=code, mechanisms=list(MECHANISMS)))


def authenticate(broker: BrokerState, exchange: Exchange, now: float) -> None:
    """SaslAuthenticate: a token of the mechanism."""
    client = exchange.client
    if not isinstance(client.state.get(STATE), Authentication):
        code, words = ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate without a handshake"
        if client.principal is None:
            exchange.close(words, End.LOGIN)
        exchange.reply(Message(error_code=code, error_message=words, auth_bytes=b""))
        return
    _begin(_Attempt(broker, exchange, bytes(exchange.request.body.auth_bytes)), now)


def expects_token(client: Client) -> bool:
    """Whether this client's next frame is a token without a header."""
    state = client.state.get(STATE)
    return isinstance(state, Authentication) and state.is_raw


def raw(
    broker: BrokerState,
    client: Client,
    frame: memoryview,
    now: float,
    on_done: Callable[[Exchange], None] | None,
    owner: Owner,
) -> Exchange:
    """Answers a frame that is a token; one that proves nothing, by hanging up."""
    header = RequestHeader(ApiKey.SaslAuthenticate, 0, 0, None, 0)
    exchange = Exchange(client, Request(header, Message(), len(frame)), now, on_done, owner)
    _begin(_Attempt(broker, exchange, bytes(frame), is_raw=True), now)
    return exchange


class _Attempt:
    """A token that is to be looked at, perhaps after a while."""

    def __init__(
        self, broker: BrokerState, exchange: Exchange, token: bytes, *, is_raw: bool = False
    ) -> None:
        self.broker = broker
        self.exchange = exchange
        self._token = token
        self._is_raw = is_raw

    def is_due(self) -> bool:
        return False

    def complete(self, now: float, *, timed_out: bool) -> None:  # noqa: ARG002 - it always is
        exchange = self.exchange
        try:
            answer = self._take()
        except AuthenticationError as error:
            exchange.client.state.pop(STATE, None)
            self.broker.failed_logins.add(exchange.client.address, now)
            why = f"failed login: {error}"
            if self._is_raw:
                exchange.hang_up(why, End.LOGIN)
                return
            exchange.close(why, End.LOGIN)
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            exchange.reply(Message(error_code=code, error_message=str(error), auth_bytes=b""))
            return
        if self._is_raw:
            exchange.reply_bytes(answer)
        else:
            exchange.reply(Message(error_code=0, error_message=None, auth_bytes=answer))

    def _take(self) -> bytes:
        """The token to answer. AuthenticationError."""
        client = self.exchange.client
        state = client.state[STATE]
        assert isinstance(state, Authentication)
        answer, name = state.take(self._token)
        if name is not None:
            access = self.broker.guard.find(client.address, name, client.certificate)
            if access is None:
                raise AuthenticationError(f"no rule is for user {name!r:.100}")
            del client.state[STATE]
            client.principal, client.access = f"User:{name}", access
        return answer


def _begin(attempt: _Attempt, now: float) -> None:
    """Looks at a token, no sooner than guessing may be."""
    broker, exchange = attempt.broker, attempt.exchange
    wait = broker.failed_logins.wait(exchange.client.address, now)
    if wait:
        broker.purgatory.watch(attempt, (), now, now + wait, exchange)
    else:
        attempt.complete(now, timed_out=False)
