"""Authentication: SaslHandshake and SaslAuthenticate, and the tokens without a header that follow a
handshake of version 0.

PLAIN [RFC 4616]; SCRAM-SHA-256 and -512 [RFC 5802], by scramp. What is answered when is Kafka's
[SaslServerAuthenticator]: before authentication nothing else is, and who fails is disconnected."""

from collections.abc import Callable, Generator, Mapping
from functools import lru_cache
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from scramp import ScramException, ScramMechanism

from downconvert.broker.errors import BadRequestError, BrokerError, ErrorCode
from downconvert.broker.exchange import Client, Exchange
from downconvert.broker.wire.requests import Request, RequestHeader
from downconvert.broker.wire.schemas import ApiKey, Message

if TYPE_CHECKING:
    from downconvert.broker.broker import Broker

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM)
BEFORE: Final = (ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate)
REQUEST_SIZE_MAX: Final = 524_288  # bytes before authentication [sasl.server.max.receive.size]
RAW_VERSION: Final = 0  # of a handshake: tokens follow as they are
STATE: Final = "sasl"  # where a client keeps its authentication

# Takes a token, gives a token; returns the user's name in the end.
Conversation: TypeAlias = Generator[bytes, bytes, str]


class AuthenticationError(BrokerError):
    """Not who it says; the words are for the client."""


class Credentials:
    """Users and their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = dict(passwords)
        # Salted once, as thousands of rounds of hashing take milliseconds.
        self._salted = lru_cache(maxsize=1024)(self._salt)

    @classmethod
    def load(cls, path: Path) -> "Credentials":
        """From lines `name:password`; empty lines, and those that begin with #, do not count.

        OSError; ValueError: a line is none."""
        passwords = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, colon, password = line.partition(":")
            if not (name and colon and password):
                raise ValueError(f"{path}: line {number} is not NAME:PASSWORD")
            passwords[name] = password
        if not passwords:
            raise ValueError(f"{path} names no user: write a line NAME:PASSWORD for each")
        return cls(passwords)

    def is_right(self, name: str, password: str) -> bool:
        known = self._passwords.get(name, "")
        return compare_digest(known.encode(), password.encode()) and name in self._passwords

    def conversation(self, mechanism: str) -> Conversation:
        return self._plain() if mechanism == PLAIN else self._scram(mechanism)

    def _plain(self) -> Conversation:
        token = yield b""
        parts = token.split(b"\0")
        try:
            acts_as, name, password = (part.decode() for part in parts)
        except ValueError:  # also what is no UTF-8
            raise AuthenticationError("Invalid SASL/PLAIN response") from None
        if not self.is_right(name, password) or acts_as not in ("", name):
            raise AuthenticationError("Authentication failed: Invalid username or password")
        yield b""
        return name

    def _scram(self, mechanism: str) -> Conversation:
        failed = AuthenticationError(
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {mechanism}"
        )
        names = []

        def salted(name: str) -> tuple[bytes, bytes, bytes, int]:
            names.append(name)
            return self._salted(mechanism, name)

        server = ScramMechanism(mechanism).make_server(salted)
        try:
            server.set_client_first((yield b"").decode())
            server.set_client_final((yield server.get_server_first().encode()).decode())
            yield server.get_server_final().encode()
        except (ScramException, LookupError, ValueError):
            raise failed from None
        return names[0]

    def _salt(self, mechanism: str, name: str) -> tuple[bytes, bytes, bytes, int]:
        made = ScramMechanism(mechanism).make_auth_info(self._passwords[name])
        salt, stored_key, server_key, rounds = made
        return salt, stored_key, server_key, rounds


class Authentication:
    """Of one client, from its handshake on."""

    def __init__(self, credentials: Credentials, mechanism: str, *, is_raw: bool) -> None:
        self.is_raw = is_raw
        self._conversation = credentials.conversation(mechanism)
        next(self._conversation)
        self._tokens = 0
        self._tokens_whole = 1 if mechanism == PLAIN else 2

    def take(self, token: bytes) -> tuple[bytes, str | None]:
        """The token to answer, and the user's name once that is proved. AuthenticationError."""
        answer = self._conversation.send(token)
        self._tokens += 1
        if self._tokens < self._tokens_whole:
            return answer, None
        try:
            next(self._conversation)
        except StopIteration as end:
            return answer, end.value
        raise AssertionError("a conversation without an end")


def handshake(broker: "Broker", exchange: Exchange, _now: float) -> None:
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
    exchange.hangs_up = not known
    exchange.reply(Message(error_code=code, mechanisms=list(MECHANISMS)))


def authenticate(_broker: "Broker", exchange: Exchange, _now: float) -> None:
    """SaslAuthenticate: a token of the mechanism."""
    client = exchange.client
    state = client.state.get(STATE)
    if not isinstance(state, Authentication):
        code, words = ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate without a handshake"
        exchange.hangs_up = client.principal is None
        exchange.reply(Message(error_code=code, error_message=words, auth_bytes=b""))
        return
    try:
        answer = _take(client, state, bytes(exchange.request.body.auth_bytes))
    except AuthenticationError as error:
        exchange.hangs_up = True
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        exchange.reply(Message(error_code=code, error_message=str(error), auth_bytes=b""))
        return
    exchange.reply(Message(error_code=0, error_message=None, auth_bytes=answer))


def check(header: RequestHeader) -> None:
    """BadRequestError: one who is not authenticated may not ask this, and hears no answer."""
    if header.api not in BEFORE:
        raise BadRequestError(f"{header.api.name} before authentication")


def raw(
    client: Client,
    frame: memoryview,
    now: float,
    on_done: Callable[[Exchange], None] | None = None,
) -> Exchange | None:
    """What is done with a frame that is a token; None: this client's frames are requests.

    BadRequestError: the token proves nothing, and there is no way to say so but to hang up."""
    state = client.state.get(STATE)
    if not isinstance(state, Authentication) or not state.is_raw:
        return None
    header = RequestHeader(ApiKey.SaslAuthenticate, 0, 0, None, 0)
    exchange = Exchange(client, Request(header, Message(), len(frame)), now, on_done)
    try:
        exchange.reply_bytes(_take(client, state, bytes(frame)))
    except AuthenticationError as error:
        raise BadRequestError(str(error)) from None
    return exchange


def _take(client: Client, state: Authentication, token: bytes) -> bytes:
    answer, name = state.take(token)
    if name is not None:
        del client.state[STATE]
        client.principal = f"User:{name}"
    return answer
