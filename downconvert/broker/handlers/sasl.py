"""Authentication: SaslHandshake, SaslAuthenticate, and tokens without a header.

Tokens without a header follow a handshake of version 0. As in Kafka [SaslServerAuthenticator], no
other request is answered before authentication, and a client that fails is disconnected. After a
failure, the next token of the same user and address is delayed. A client may authenticate again on
the same connection before its login expires [KIP-368].

Not here: the mechanisms and the users (credentials.py), permissions (access)."""

from collections.abc import Callable
from typing import Final

from downconvert.access.credentials import (
    NOT_YET_SECONDS,
    TOKEN_SIZE_MAX,
    AuthenticationError,
    Proved,
    session_lifetime_ms,
)
from downconvert.access.delayed_login import DelayedLogin
from downconvert.broker.endings import End
from downconvert.broker.exchange import Client, Exchange
from downconvert.broker.owner import Owner
from downconvert.broker.state import BrokerState
from downconvert.protocol.errors import ErrorCode
from downconvert.protocol.requests import Request, RequestHeader
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.series import NAME_MAX

LOGIN: Final = (ApiKey.SaslHandshake, ApiKey.SaslAuthenticate)
BEFORE: Final = (ApiKey.ApiVersions, *LOGIN)
REQUEST_SIZE_MAX: Final = TOKEN_SIZE_MAX  # bytes before authentication
RAW_VERSION: Final = 0  # of a handshake: tokens follow without a header
STATE: Final = "sasl"  # the key of a client's authentication state


def handshake(broker: BrokerState, exchange: Exchange, _now: float) -> None:
    """SaslHandshake: the client chooses a mechanism."""
    client, mechanism = exchange.client, exchange.request.body.mechanism
    identities = broker.guard.identities
    mechanisms = identities.mechanisms
    is_settled = client.proved is not None and client.proved.expires_at is None
    if is_under_way(client):
        exchange.close("SaslHandshake in the middle of a login", End.LOGIN)
    if not mechanisms or is_settled or is_under_way(client):
        exchange.reply(Message(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))
        return
    known = mechanism in mechanisms
    if known:
        is_raw = exchange.request.version == RAW_VERSION
        failed, address = broker.failed_logins, client.address
        client.state[STATE] = identities.login(mechanism, failed, address, is_raw=is_raw)
    else:
        exchange.close(f"SASL mechanism {mechanism!r:.50} is not known", End.LOGIN)
    code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    exchange.reply(Message(error_code=code, mechanisms=list(mechanisms)))


def authenticate(broker: BrokerState, exchange: Exchange, now: float) -> None:
    """SaslAuthenticate: a token of the mechanism."""
    client = exchange.client
    if not isinstance(client.state.get(STATE), DelayedLogin):
        code, words = ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate without a handshake"
        if client.access is None:
            exchange.close(words, End.LOGIN)
        exchange.reply(Message(error_code=code, error_message=words, auth_bytes=b""))
        return
    _begin(_Attempt(broker, exchange, bytes(exchange.request.body.auth_bytes)), now)


def is_under_way(client: Client) -> bool:
    """Whether this client has chosen a mechanism, and has not logged in with it yet."""
    return isinstance(client.state.get(STATE), DelayedLogin)


def expects_token(client: Client) -> bool:
    """Whether this client's next frame is a token without a header."""
    state = client.state.get(STATE)
    return isinstance(state, DelayedLogin) and state.is_raw


def raw(
    broker: BrokerState,
    client: Client,
    frame: memoryview,
    now: float,
    on_done: Callable[[Exchange], None] | None,
    owner: Owner,
) -> Exchange:
    """Answers a frame that is a token. A wrong token closes the connection."""
    header = RequestHeader(ApiKey.SaslAuthenticate, 0, 0, None, 0)
    exchange = Exchange(client, Request(header, Message(), len(frame)), now, on_done, owner)
    _begin(_Attempt(broker, exchange, bytes(frame), is_raw=True), now)
    return exchange


class _Attempt:
    """A token to check, perhaps after a delay."""

    def __init__(
        self, broker: BrokerState, exchange: Exchange, token: bytes, *, is_raw: bool = False
    ) -> None:
        self.broker = broker
        self.exchange = exchange
        login = exchange.client.state[STATE]
        assert isinstance(login, DelayedLogin)
        self.login = login
        self.token = token
        self._is_raw = is_raw

    def is_due(self) -> bool:
        return False

    def complete(self, now: float, *, timed_out: bool) -> None:  # noqa: ARG002 - it always is
        exchange = self.exchange
        try:
            taken = self._take(now)
        except AuthenticationError as error:
            exchange.client.state.pop(STATE, None)
            why = f"failed login: {error.why}"
            if self._is_raw:
                exchange.hang_up(why, End.LOGIN)
                return
            exchange.close(why, End.LOGIN)
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            exchange.reply(Message(error_code=code, error_message=str(error), auth_bytes=b""))
            return
        if taken is None:
            soon = now + NOT_YET_SECONDS
            self.broker.purgatory.watch(self, (), now, soon, exchange)
            return
        response, lifetime = taken
        if self._is_raw:
            exchange.reply_bytes(response)
        else:
            exchange.reply(Message(auth_bytes=response, session_lifetime_ms=lifetime))

    def _take(self, now: float) -> tuple[bytes, int] | None:
        """The token to answer with, and the session's lifetime in ms (0: unlimited). None: check
        again later. Raises AuthenticationError."""
        client, broker = self.exchange.client, self.broker
        time_of_day = broker.time_of_day.at(now)
        taken = self.login.take(self.token, now, time_of_day, self._authenticated_as)
        client.refusal = self.login.refusal or client.refusal
        if not isinstance(taken, Proved):
            return None if taken is None else (taken, 0)
        return taken.response, session_lifetime_ms(taken, time_of_day)

    def _authenticated_as(self, proved: Proved) -> None:
        """Takes the identity that the client has proved. AuthenticationError: no rule
        matches it."""
        client = self.exchange.client
        proved.check_same(client.proved)
        found = self.broker.guard.find(
            client.address, proved.name, client.certificate, proved.groups
        )
        if found is None:
            raise AuthenticationError(f"user {proved.name!r:.100} matches no rule")
        del client.state[STATE]
        client.principal, client.access, client.proved = f"User:{proved.name}", found, proved


def _begin(attempt: _Attempt, now: float) -> None:
    """Checks a token, after the delay against guessing."""
    broker, exchange = attempt.broker, attempt.exchange
    wait = attempt.login.begin(attempt.token, now)
    exchange.client.claimed = attempt.login.claimed[:NAME_MAX]
    if wait:
        broker.purgatory.watch(attempt, (), now, now + wait, exchange)
    else:
        attempt.complete(now, timed_out=False)
