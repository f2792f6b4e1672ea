"""The server side of OAUTHBEARER [RFC 7628]: one message with a token, and one response.

As in Kafka [OAuthBearerSaslServer], the response to an invalid token is a JSON object that
describes the error. The client must answer with any byte, and then gets the failure of the login.

Not here: which tokens are valid (tokens.py)."""

import json
import re
from typing import Final

from .credentials import AuthenticationError, Conversation, Proved
from .tokens import KEY_WAIT, NoKeyYetError, TokenError, Tokens

OAUTHBEARER: Final = "OAUTHBEARER"
INVALID: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    f"{OAUTHBEARER}"
)
# gs2-header, then pairs of keys and values [RFC 7628, 3.1].
FIRST: Final = re.compile(
    rb"[ny],(?:a=(?P<acts_as>[^,\0]*))?,\x01"
    rb"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01",
)
BEARER: Final = re.compile(rb"(?i:bearer) +([A-Za-z0-9\-._]+)")
AUTH: Final = b"auth"


def conversation(tokens: Tokens) -> Conversation:
    """The server's side of one login. AuthenticationError: the token is not accepted."""
    message, now = yield b""
    token, acts_as = parse_first(message)
    began_at = now
    while True:
        try:
            claims = tokens.judge(token, now, waits=now - began_at < KEY_WAIT)
            break
        except NoKeyYetError:
            _, now = yield None
        except TokenError as error:
            challenge = {"status": error.status}
            if error.status == "insufficient_scope":
                challenge["scope"] = " ".join(tokens.settings.scope)
            text = json.dumps(challenge, separators=(",", ":"))
            why = f"a token of {OAUTHBEARER}: {error}"
            raise AuthenticationError(text, why=why, challenge=text.encode()) from None
    if acts_as not in ("", claims.name):
        raise AuthenticationError(
            f"Authentication failed: Client requested an authorization id ({acts_as:.100}) that is "
            f"different from the token's principal name ({claims.name})",
            why=f"{claims.name!r} wants to be {acts_as!r:.100}",
        )
    return Proved(claims.name, groups=claims.groups, expires_at=claims.expires_at)


def parse_first(message: bytes) -> tuple[bytes, str]:
    """The token, and the user that the client wants to act as, or an empty text.
    AuthenticationError."""
    found = FIRST.fullmatch(message)
    pairs = [] if found is None else found["pairs"].split(b"\x01")
    values = [value for key, _, value in (pair.partition(b"=") for pair in pairs) if key == AUTH]
    bearer = BEARER.fullmatch(values[0].strip()) if len(values) == 1 else None
    if found is None or bearer is None:
        raise AuthenticationError(INVALID, why=f"the message is not one of {OAUTHBEARER}")
    try:
        acts_as = (found["acts_as"] or b"").decode()
    except UnicodeDecodeError:
        raise AuthenticationError(INVALID, why=f"the message is not one of {OAUTHBEARER}") from None
    return bearer[1], acts_as.replace("=2C", ",").replace("=3D", "=")
