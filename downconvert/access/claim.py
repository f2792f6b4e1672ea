"""The claimed user of one login, read from its tokens before anything is proved.

A failed login is recorded under this name, and the next attempt with the name must wait
(failed_logins.py).

Not here: whether the claim is true (credentials.py, oauthbearer.py)."""

import json
from base64 import urlsafe_b64decode

from .credentials import PLAIN, SCRAM_FIRST, AuthenticationError
from .oauthbearer import OAUTHBEARER, parse_first
from .tokens import TOKEN_MAX


class Claim:
    """The claim of one login. `user`: from the last token; empty if it has none that can be
    read."""

    def __init__(self, mechanism: str, principal_claim: str = "sub") -> None:
        self.user = ""
        self._mechanism = mechanism
        self._principal_claim = principal_claim
        self._tokens = 0

    def take(self, token: bytes) -> bool:
        """Reads the user from a token. Returns whether this token may prove the claim: the first
        token, but in SCRAM the second, because the first proves nothing."""
        self._tokens += 1
        if self._tokens == 1:
            self.user = self._read(token)
        return self._tokens == (1 if self._mechanism in (PLAIN, OAUTHBEARER) else 2)

    def _read(self, token: bytes) -> str:
        if self._mechanism == OAUTHBEARER:
            return _unproved(token, self._principal_claim)
        name = _plain(token) if self._mechanism == PLAIN else _scram(token)
        return name.decode(errors="backslashreplace")


def _plain(token: bytes) -> bytes:
    parts = token.split(b"\0")
    return parts[1] if len(parts) > 1 else b""


def _scram(token: bytes) -> bytes:
    found = SCRAM_FIRST.match(token)
    return b"" if found is None else found[1]


def _unproved(message: bytes, claim: str) -> str:
    try:
        token, _ = parse_first(message)
        if len(token) > TOKEN_MAX:
            return ""
        payload = token.split(b".")[1]
        name = json.loads(urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))[claim]
    except (AuthenticationError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""
