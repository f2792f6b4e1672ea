"""Authentication: SaslHandshake and SaslAuthenticate, and the tokens without a header that follow a
handshake of version 0.

What is answered when is Kafka's [SaslServerAuthenticator]: before authentication no other request
is answered, and a client that fails is disconnected.

Not here: the mechanisms, and the users (credentials.py)."""

from collections.abc import Callable
from typing import Final

from downconvert.broker.credentials import MECHANISMS, Authentication, AuthenticationError
from downconvert.broker.endings import End
from downconvert.broker.errors import ErrorCode, FailedLoginError
from downconvert.broker.exchange import Client, Exchange
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
    if broker.credentials is None or client.principal is not None:
        exchange.reply(Message(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))
        return
    known = mechanism in MECHANISMS
    if known:
        is_raw = exchange.request.version == RAW_VERSION
        client.state[STATE] = Authentication(broker.credentials, mechanism, is_raw=is_raw)
    code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    if not known:
        exchange.close(f"SASL mechanism {mechanism!r:.50} is not known", End.LOGIN)
    exchange.reply(Message(error_code=code, mechanisms=list(MECHANISMS)))


def authenticate(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
    """SaslAuthenticate: a token of the mechanism."""
    client = exchange.client
    state = client.state.get(STATE)
    if not isinstance(state, Authentication):
        code, words = ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate without a handshake"
        if client.principal is None:
            exchange.close(words, End.LOGIN)
        exchange.reply(Message(error_code=code, error_message=words, auth_bytes=b""))
        return
    try:
        answer = _take(client, state, bytes(exchange.request.body.auth_bytes))
    except AuthenticationError as error:
        exchange.close(f"failed login: {error}", End.LOGIN)
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        exchange.reply(Message(error_code=code, error_message=str(error), auth_bytes=b""))
        return
    exchange.reply(Message(error_code=0, error_message=None, auth_bytes=answer))


def check(header: RequestHeader) -> None:
    """FailedLoginError: a client that is not authenticated may not ask this, and gets no answer."""
    if header.api not in BEFORE:
        raise FailedLoginError(f"{header.api.name} before authentication")


def raw(
    client: Client,
    frame: memoryview,
    now: float,
    on_done: Callable[[Exchange], None] | None = None,
) -> Exchange | None:
    """Answers a frame that is a token; None: this client's frames are requests.

    FailedLoginError: the token proves nothing, and there is no way to say so but to hang up."""
    state = client.state.get(STATE)
    if not isinstance(state, Authentication) or not state.is_raw:
        return None
    header = RequestHeader(ApiKey.SaslAuthenticate, 0, 0, None, 0)
    exchange = Exchange(client, Request(header, Message(), len(frame)), now, on_done)
    try:
        exchange.reply_bytes(_take(client, state, bytes(frame)))
    except AuthenticationError as error:
        raise FailedLoginError(f"failed login: {error}") from None
    return exchange


def _take(client: Client, state: Authentication, token: bytes) -> bytes:
    answer, name = state.take(token)
    if name is not None:
        del client.state[STATE]
        client.principal = f"User:{name}"
    return answer
