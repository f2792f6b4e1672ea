"""Keys and tokens for tests of OAUTHBEARER."""

import json
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER: Final = "https://idp.test"
AUDIENCE: Final = "kafka"
ALGORITHMS: Final = {
    "rsa": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "p256": ("ES256",),
    "p384": ("ES384",),
    "ed25519": ("EdDSA",),
}
KEYS: Final[dict[str, Any]] = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}


def jwk(name: str, **more: Any) -> dict[str, Any]:
    """A public key, whose `kid` is its name unless another is given."""
    algorithm = jwt.get_algorithm_by_name(ALGORITHMS[name][0])
    found: dict[str, Any] = algorithm.to_jwk(KEYS[name].public_key(), as_dict=True)
    found.pop("key_ops", None)
    return found | {"kid": name} | more


def document(*keys: dict[str, Any]) -> bytes:
    """A JWKS; without any, of all KEYS."""
    return json.dumps({"keys": list(keys) or [jwk(name) for name in KEYS]}).encode()


def token(
    now: float,
    *,
    by: str = "p256",
    algorithm: str = "",
    headers: dict[str, Any] | None = None,
    **claims: Any,
) -> bytes:
    """Valid for an hour unless the claims say something else; None: without that claim."""
    whole = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "iat": int(now), "exp": int(now) + 3600}
    payload = {name: value for name, value in (whole | claims).items() if value is not None}
    named = {"kid": by} | (headers or {})
    made = jwt.PyJWS().encode(
        json.dumps(payload).encode(),
        KEYS[by],
        algorithm or ALGORITHMS[by][0],
        headers={name: value for name, value in named.items() if value is not None},
    )
    return made.encode()


def first_message(bearer: bytes, acts_as: str = "") -> bytes:
    """As a client of OAUTHBEARER begins."""
    acts = f"a={acts_as}" if acts_as else ""
    return f"n,{acts},\x01auth=Bearer ".encode() + bearer + b"\x01\x01"


def write(directory: Path, *keys: dict[str, Any]) -> Path:
    path = directory / "keys.json"
    path.write_bytes(document(*keys))
    return path
