"""Users and their passwords, and how a client proves to be one of them.

PLAIN [RFC 4616]; SCRAM-SHA-256 and -512 [RFC 5802], by scramp.

Not here: the requests that carry the tokens (handlers/sasl.py)."""

from collections.abc import Generator, Mapping
from functools import lru_cache
from hmac import compare_digest
from pathlib import Path
from typing import Final, TypeAlias

from scramp import ScramException, ScramMechanism

from .errors import BrokerError

PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM)

# Is sent tokens and yields tokens; returns the user's name in the end.
Conversation: TypeAlias = Generator[bytes, bytes, str]


class AuthenticationError(BrokerError):
    """A login that failed; the words are for the client."""


class Credentials:
    """Users and their passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = dict(passwords)
        # Salted once, as thousands of rounds of hashing take milliseconds.
        self._salted = lru_cache(maxsize=1024)(self._salt)

    @classmethod
    def load(cls, path: Path) -> "Credentials":
        """From lines `name:password`; empty lines, and those that begin with #, are skipped.

        OSError; ValueError: a line is malformed."""
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
        """The token to answer with, and the user's name once that is proved.
        AuthenticationError."""
        answer = self._conversation.send(token)
        self._tokens += 1
        if self._tokens < self._tokens_whole:
            return answer, None
        try:
            next(self._conversation)
        except StopIteration as end:
            return answer, end.value
        raise AssertionError("a conversation without an end")
