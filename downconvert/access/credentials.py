"""Users and their passwords, and the authentication of a client as one of them.

PLAIN [RFC 4616]; SCRAM-SHA-256 and -512 [RFC 5802], by scramp.

Not here: the requests that carry the tokens (handlers/sasl.py), OAUTHBEARER
(access/oauthbearer.py)."""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hmac import compare_digest
from pathlib import Path
from typing import Final, TypeAlias

from downconvert.protocol.errors import BrokerError

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM)

TOKEN_SIZE_MAX: Final = 524_288  # bytes of a request with a token [sasl.server.max.receive.size]
# Bytes of a SCRAM message. Several copies of the first message are kept until the client proves
# that it knows the password. Usually it has at most a few hundred bytes.
SCRAM_MESSAGE_MAX: Final = 4096
SCRAM_FIRST: Final = re.compile(rb"[^,]*,[^,]*,(?:m=[^,]*,)?n=([^,]*)")  # [RFC 5802, 7]
LIFETIME_MAX: Final = 10 * 365 * 86_400  # seconds
NOT_YET_SECONDS: Final = 0.1  # until a token that could not be checked is checked again


@dataclass(frozen=True, slots=True)
class Proved:
    """The authenticated user."""

    name: str
    response: bytes = b""  # the last token of the conversation
    groups: tuple[str, ...] = ()
    expires_at: float | None = None  # time of day, in seconds; None: never

    def check_same(self, former: "Proved | None") -> None:
        """AuthenticationError: the client has authenticated again as another user [KIP-368]."""
        if former is not None and former.name != self.name:
            raise AuthenticationError(
                "Cannot change principals during re-authentication from "
                f"User:{former.name} to User:{self.name}"
            )


# Receives tokens and the time of day, and yields the responses. A yielded None means: pass the same
# token in again soon. Returns the user at the end.
Conversation: TypeAlias = Generator[bytes | None, tuple[bytes, float], Proved]


class AuthenticationError(BrokerError):
    """A failed login. The message is for the client.

    `why`: the message for the log. `challenge`: the mechanism's own message about the failure,
    which is sent first. The client's next token, whatever it is, then gets the error [RFC 7628,
    3.2.3]."""

    def __init__(self, words: str, *, why: str = "", challenge: bytes | None = None) -> None:
        super().__init__(words)
        self.why = why or words
        self.challenge = challenge


def session_lifetime_ms(proved: Proved, now: float) -> int:
    """Milliseconds until the client must authenticate again; 0: never. `now`: the time of day, in
    seconds."""
    if proved.expires_at is None:
        return 0
    # A token that is accepted only because of the allowed clock skew gets a short session.
    seconds = min(max(proved.expires_at - now, 0.001), LIFETIME_MAX)
    return int(seconds * 1000)


class Credentials:
    """Users and their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        from scramp import ScramMechanism  # a sixth of a gateway's start; only passwords need it

        self._passwords = dict(passwords)
        self._mechanisms = {name: ScramMechanism(name) for name in SCRAM}
        # Each password is salted once, because thousands of rounds of hashing take milliseconds.
        self._salted = lru_cache(maxsize=1024)(self._salt)

    @classmethod
    def load(cls, path: Path) -> "Credentials":
        """Reads lines `name:password`; skips empty lines and those that begin with #.

        OSError; ValueError: a line is malformed."""
        passwords = {}
        for number, raw in enumerate(path.read_bytes().splitlines(), 1):
            try:
                line = raw.decode()
            except UnicodeDecodeError:
                raise ValueError(f"{path}: line {number} is not UTF-8") from None
            if not line.strip() or line.startswith("#"):
                continue
            name, colon, password = line.partition(":")
            if not (name and colon and password):
                raise ValueError(f"{path}: line {number} is not NAME:PASSWORD")
            if name in passwords:
                raise ValueError(f"{path}: line {number} names {name!r} again")
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
        token, _ = yield b""
        parts = token.split(b"\0")
        try:
            acts_as, name, password = (part.decode() for part in parts)
        except ValueError:  # also invalid UTF-8
            raise AuthenticationError("Invalid SASL/PLAIN response") from None
        if not self.is_right(name, password) or acts_as not in ("", name):
            raise AuthenticationError("Authentication failed: Invalid username or password")
        return Proved(name)

    def _scram(self, mechanism: str) -> Conversation:
        from scramp import ScramException

        failed = AuthenticationError(
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {mechanism}"
        )
        names = []

        def salted(name: str) -> tuple[bytes, bytes, bytes, int]:
            names.append(name)
            return self._salted(mechanism, name)

        server = self._mechanisms[mechanism].make_server(salted)
        try:
            token, _ = yield b""
            server.set_client_first(_message(token))
            if not _is_written(names[0], token):
                raise failed
            token, _ = yield server.get_server_first().encode()
            server.set_client_final(_message(token))
            return Proved(names[0], server.get_server_final().encode())
        except (ScramException, LookupError, ValueError):
            raise failed from None

    def _salt(self, mechanism: str, name: str) -> tuple[bytes, bytes, bytes, int]:
        made = self._mechanisms[mechanism].make_auth_info(self._passwords[name])
        salt, stored_key, server_key, rounds = made
        return salt, stored_key, server_key, rounds


def _message(token: bytes) -> str:
    """A message of SCRAM. ValueError: it is too long, or not UTF-8."""
    if len(token) > SCRAM_MESSAGE_MAX:
        raise ValueError("a message of SCRAM is too long")
    return token.decode()


def _is_written(name: str, first: bytes) -> bool:
    """Whether a first message of SCRAM has this name in its only form. As in Kafka, names are not
    normalized: with many forms of one name, each guess of a password would be the first."""
    found = SCRAM_FIRST.match(first)
    written = name.replace("=", "=3D").replace(",", "=2C").encode()
    return found is not None and found[1] == written


class Authentication:
    """The authentication of one client, from its handshake on."""

    def __init__(self, conversation: Conversation, *, is_raw: bool) -> None:
        self.is_raw = is_raw
        self.refused: AuthenticationError | None = None  # the response to the next token
        self._conversation = conversation
        next(self._conversation)

    def take(self, token: bytes, now: float) -> bytes | Proved | None:
        """Returns the response to a token, or the authenticated user. None: the token cannot be
        checked yet, and must be passed in again after NOT_YET_SECONDS. `now`: the time of day.
        AuthenticationError."""
        if self.refused is not None:
            raise AuthenticationError(str(self.refused), why=self.refused.why)
        try:
            return self._conversation.send((token, now))
        except StopIteration as end:
            proved: Proved = end.value
            return proved
        except AuthenticationError as error:
            if error.challenge is None:
                raise
            self.refused = error
            return error.challenge
