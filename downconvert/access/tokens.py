"""The tokens of clients that log in: JWTs [RFC 7519] that an issuer has signed.

A valid token gives a client its name, until the token expires. It is valid if its signature is
valid, and if issuer, audience, scope and times fit this listener.

Not here: keys and signatures (jwks.py), the messages with tokens (oauthbearer.py)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from records.units import KiB

from .rights import ConfigError

if TYPE_CHECKING:
    from .jwks import Jwks

TOKEN_MAX: Final = 16 * KiB  # bytes
NAME_MAX: Final = 256  # characters of a name in a token
GROUPS_MAX: Final = 1000
KEY_WAIT: Final = 5.0  # seconds for a key that was just published


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Conditions for accepting a token. ConfigError: impossible settings.

    jwks: the file or the https URL of the keys. audience: a token must have one of these. scope: a
    token must have all of these."""

    jwks: str = ""
    issuer: str = ""
    audience: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    groups_claim: str | None = None
    clock_skew: float = 30.0  # seconds [sasl.oauthbearer.clock.skew.seconds]
    renew_seconds: float = 3600.0  # [sasl.oauthbearer.jwks.endpoint.refresh.ms]
    ca_file: str | None = None  # the CAs for the certificate of an https URL

    def __post_init__(self) -> None:
        if not self.jwks:
            raise ConfigError("[oauth] needs jwks: the file or the https URL of the keys")
        if not self.issuer:
            raise ConfigError("[oauth] needs issuer: the text of iss in the tokens")
        if not (self.audience or self.scope):
            raise ConfigError(
                "[oauth] needs audience or scope: else tokens that are for another service "
                "would be accepted"
            )


class TokenError(Exception):
    """An invalid token. The message is for the log. `status`: a code of RFC 6750."""

    def __init__(self, words: str, status: str = "invalid_token") -> None:
        super().__init__(words)
        self.status = status


class NoKeyYetError(Exception):
    """The token cannot be checked before its key has been fetched."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a valid token. `expires_at`: time of day, in seconds."""

    name: str
    groups: tuple[str, ...]
    expires_at: float


class Tokens:
    """Checks tokens. It may be sent to another process, where it must be started again.

    ModuleNotFoundError: the package that checks signatures is not installed."""

    def __init__(self, settings: TokenSettings) -> None:
        from .jwks_source import JwksSource, reader

        self.settings = settings
        self._read = reader(settings.jwks, settings.ca_file)  # ConfigError
        self.source = JwksSource(settings.jwks, self._read, settings.renew_seconds)  # the keys

    def __reduce__(self) -> tuple[type["Tokens"], tuple[TokenSettings]]:
        return Tokens, (self.settings,)

    def check(self) -> None:
        """ConfigError: a named file cannot be used. A URL is not checked, because it may be
        unavailable for a while."""
        from .jwks import Jwks, JwksError
        from .jwks_source import tls_context

        if "://" in self.settings.jwks:
            tls_context(self.settings.ca_file)
            return
        try:
            Jwks.parse(self._read())
        except OSError as error:
            raise ConfigError(f"jwks of [oauth], {self.settings.jwks}: {error.strerror}") from None
        except JwksError as error:
            raise ConfigError(f"jwks of [oauth]: {self.settings.jwks} {error}") from None

    def start(self) -> None:
        """Begins to read keys in the background."""
        self.source.start()

    def stop(self) -> None:
        self.source.stop()

    def renew(self) -> None:
        """Reads keys again soon."""
        self.source.renew_soon()

    @property
    def failure(self) -> str | None:
        """Why no client can log in with a token. None: clients can."""
        return self.source.failure

    def judge(self, token: bytes, now: float, *, waits: bool) -> Claims:
        """The claims of a valid token. `now`: the time of day, in seconds. TokenError. If `waits`,
        NoKeyYetError: the token's key is being fetched."""
        from .jwks import SignatureError, UnknownKeyError, header_of

        if len(token) > TOKEN_MAX:
            raise TokenError(f"it has more than {TOKEN_MAX} bytes")
        try:
            text = token.decode("ascii")
            header = header_of(text)
            jwks = self._keys(waits=waits)
            try:
                payload = jwks.check(text, header)
            except UnknownKeyError:
                self.source.miss()
                may_be_known = self.source.is_renewing or self.source.jwks is not jwks
                if waits and may_be_known:
                    raise NoKeyYetError from None
                raise
        except (SignatureError, UnicodeDecodeError) as error:
            words = "it is not ASCII" if isinstance(error, UnicodeDecodeError) else str(error)
            raise TokenError(words) from None
        return _claims(payload, self.settings, now)

    def _keys(self, *, waits: bool) -> "Jwks":
        is_renewing = self.source.is_renewing  # read first, because it ends when the keys are there
        jwks = self.source.jwks
        if jwks is None:
            if waits and is_renewing:
                raise NoKeyYetError
            raise TokenError(f"there are no keys: {self.source.failure}")
        return jwks


def keep(former: Tokens | None, latter: Tokens | None) -> Tokens | None:
    """Returns the object to use after settings have been read again, and starts or stops the
    objects as needed. If the settings are equal, it is the old object, which reads its keys again.

    If only the conditions differ, the new object uses the old one's keys. Connected clients whose
    tokens expire log in again by the old conditions."""
    if former is not None and latter is not None and _have_same_keys(former, latter):
        former.renew()
        latter.source = former.source
        return former if former.settings == latter.settings else latter
    if latter is not None:
        latter.start()
    if former is not None:
        former.stop()
    return latter


def _have_same_keys(former: Tokens, latter: Tokens) -> bool:
    """Whether both read the same document with the same settings."""
    one, other = former.settings, latter.settings
    return (one.jwks, one.ca_file, one.renew_seconds) == (
        other.jwks,
        other.ca_file,
        other.renew_seconds,
    )


def _claims(payload: bytes, settings: TokenSettings, now: float) -> Claims:
    """Reads and checks the claims. TokenError: the token is for another service or another time."""
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise TokenError("its payload is no JSON") from None
    if not isinstance(claims, dict):
        raise TokenError("its payload is not an object")
    expires_at = _time(claims, "exp")
    if expires_at is None:
        raise TokenError("it does not say until when it is valid")
    if expires_at + settings.clock_skew <= now:
        raise TokenError(f"it expired {now - expires_at:.0f} s ago")
    for claim, words in (("nbf", "it is not valid yet"), ("iat", "it was issued in the future")):
        begins_at = _time(claims, claim)
        if begins_at is not None and begins_at - settings.clock_skew > now:
            raise TokenError(f"{words}: {begins_at - now:.0f} s from now")
    if claims.get("iss") != settings.issuer:
        raise TokenError(f"its issuer is {claims.get('iss')!r:.100}, not {settings.issuer!r}")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if settings.audience and not any(one in audiences for one in settings.audience):
        wanted = " or ".join(map(repr, settings.audience))
        raise TokenError(f"its audience is {audience!r:.100}, not {wanted}")
    missing = set(settings.scope) - set(_names(claims, settings.scope_claim))
    if missing:
        words = f"its scope does not have {', '.join(sorted(missing))}"
        raise TokenError(words, "insufficient_scope")
    name = claims.get(settings.principal_claim)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX or not name.isprintable():
        raise TokenError(f"its {settings.principal_claim} is {name!r:.100}, which is not a name")
    groups = _names(claims, settings.groups_claim) if settings.groups_claim is not None else ()
    return Claims(name, groups, expires_at)


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    """A claim as seconds since the epoch. None: the claim is missing."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"its {name} is {value!r:.50}, which is not a time")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = float("inf")
    if not isfinite(seconds):
        raise TokenError(f"its {name} is not a time")
    return seconds


def _names(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    """A claim as names: it may be a list, or one text with blanks."""
    value = claims.get(claim, ())
    names = value.split() if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or len(names) > GROUPS_MAX:
        raise TokenError(f"its {claim} is not a list of names")
    return tuple(name for name in names if isinstance(name, str))
