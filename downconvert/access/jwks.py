"""The public keys of token issuers, from a JWKS [RFC 7517], and the check of a token's signature
[RFC 7515], by PyJWT and cryptography.

Only public-key signatures are accepted. `none` and HMAC are not, because then anybody who knows the
public key could sign.

Not here: fetching the document (jwks_source.py), the claims in a token (tokens.py)."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import cryptography  # noqa: F401 - PyJWT checks no signature of these without it
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWS, PyJWTError

from records.units import KiB

DOCUMENT_MAX: Final = 512 * KiB  # bytes
KEYS_MAX: Final = 256
RSA_BITS: Final = range(2048, 16_384 + 1)
RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# The algorithms for each type of key and curve.
ALGORITHMS: Final[Mapping[tuple[str, str | None], tuple[str, ...]]] = {
    ("RSA", None): RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
KNOWN: Final = frozenset(name for names in ALGORITHMS.values() for name in names)
PUBLIC: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}


class JwksError(ValueError):
    """A document that is not a JWKS, or has no usable key."""


class SignatureError(ValueError):
    """A token with a wrong signature, or without an accepted one."""


class UnknownKeyError(SignatureError):
    """The key of a signature is unknown. It may be new."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`kid`: its name, if it has one."""

    kid: str | None
    algorithms: tuple[str, ...]
    public: Any  # PyJWT's object


@dataclass(frozen=True, slots=True)
class Jwks:
    """The keys of a document."""

    keys: tuple[PublicKey, ...]

    @classmethod
    def parse(cls, document: bytes) -> "Jwks":
        """Parses a document. Skips keys that are not for signatures, or of a kind that is not
        accepted. JwksError: no key is left."""
        if len(document) > DOCUMENT_MAX:
            raise JwksError(f"has more than {DOCUMENT_MAX} bytes")
        try:
            found = json.loads(document)
        except (ValueError, RecursionError):  # also invalid UTF-8
            raise JwksError("is no JSON") from None
        keys = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(keys, list):
            raise JwksError('is not a JWKS: it has no list "keys"')
        if len(keys) > KEYS_MAX:
            raise JwksError(f"has more than {KEYS_MAX} keys")
        usable = tuple(key for one in keys if (key := _key(one)) is not None)
        if not usable:
            raise JwksError("has no public key for signatures: RSA, P-256, P-384 or Ed25519")
        return cls(usable)

    def check(self, token: str, header: Mapping[str, Any]) -> bytes:
        """Checks the signature of a token with this header, and returns its payload.
        SignatureError."""
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in KNOWN:
            raise SignatureError(
                f"its algorithm is {algorithm!r:.50}, not one of {', '.join(sorted(KNOWN))}"
            )
        # No critical header extension is supported.
        if "crit" in header or "b64" in header:
            raise SignatureError("its header has an extension that is not supported (crit or b64)")
        fitting = [
            one for one in self.keys if algorithm in one.algorithms and kid in (None, one.kid)
        ]
        if not fitting:
            raise UnknownKeyError(f"its key is {kid!r:.100}, for {algorithm}, which is not known")
        if len(fitting) > 1:
            raise SignatureError(f"there are {len(fitting)} keys that could be its {kid!r:.100}")
        try:
            decoded = PyJWS().decode_complete(token, fitting[0].public, algorithms=[algorithm])
        except (PyJWTError, ValueError, TypeError, RecursionError):
            raise SignatureError("its signature is wrong") from None
        payload: bytes = decoded["payload"]
        return payload


def header_of(token: str) -> dict[str, Any]:
    """A token's header, before any check. SignatureError: it is no token."""
    header, *rest = token.split(".")
    if len(rest) != 2:
        raise SignatureError("it does not have three parts")
    try:
        found = json.loads(urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, RecursionError):
        raise SignatureError("its header is no JSON") from None
    if not isinstance(found, dict):
        raise SignatureError("its header is not an object")
    return found


def _key(one: object) -> PublicKey | None:
    """Parses a key. None: it cannot be used here."""
    if not isinstance(one, dict) or one.get("use", "sig") != "sig":
        return None
    kind, kid = one.get("kty"), one.get("kid")
    if not isinstance(kind, str) or not isinstance(kid, str | None):
        return None
    curve = one.get("crv") if kind != "RSA" else None
    operations = one.get("key_ops", ["verify"])
    if not isinstance(curve, str | None) or not isinstance(operations, list):
        return None
    algorithms = ALGORITHMS.get((kind, curve), ())
    if "alg" in one:
        algorithms = tuple(name for name in algorithms if name == one["alg"])
    if not algorithms or "verify" not in operations:
        return None
    try:  # only the public half, even if a private key was published
        public = PyJWK({name: one[name] for name in ("kty", *PUBLIC[kind])}, algorithms[0]).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if isinstance(public, RSAPublicKey) and public.key_size not in RSA_BITS:
        return None
    return PublicKey(kid, algorithms, public)
