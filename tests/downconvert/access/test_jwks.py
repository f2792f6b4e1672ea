import base64
import json
from typing import Any

import pytest

from downconvert.access.jwks import KEYS_MAX, Jwks, JwksError, SignatureError, UnknownKeyError
from downconvert.access.jwks import header_of as header
from tests.tokens import ALGORITHMS, document, jwk, token

ALL = [(name, algorithm) for name, names in ALGORITHMS.items() for algorithm in names]


def checked(jwks: Jwks, bearer: bytes) -> Any:
    text = bearer.decode()
    return json.loads(jwks.check(text, header(text)))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(("by", "algorithm"), ALL)
def test_signatures_of_every_kind_are_checked(by: str, algorithm: str) -> None:
    jwks = Jwks.parse(document())
    good = token(0, by=by, algorithm=algorithm)
    assert checked(jwks, good)["sub"] == "ann"
    head, payload, signature = good.split(b".")
    other = encoded({"sub": "eve"}).encode()
    changed = signature[:20] + (b"A" if signature[20:21] != b"A" else b"B") + signature[21:]
    for bad in (b".".join((head, other, signature)), b".".join((head, payload, changed))):
        with pytest.raises(SignatureError, match="signature is wrong"):
            checked(jwks, bad)


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "ES256K", "", None, [], 1])
def test_signatures_without_a_public_key_are_refused(algorithm: object) -> None:
    jwks = Jwks.parse(document())
    signed = token(0).decode().split(".")
    for signature in ("", signed[2]):
        bad = f"{encoded({'alg': algorithm, 'kid': 'rsa'})}.{signed[1]}.{signature}"
        with pytest.raises(SignatureError, match="algorithm"):
            checked(jwks, bad.encode())


def test_a_key_is_used_for_what_it_is_for() -> None:
    jwks = Jwks.parse(document(jwk("rsa", alg="PS256"), jwk("p256", kid="other")))
    assert checked(jwks, token(0, by="rsa", algorithm="PS256"))
    for bad in (
        token(0, by="rsa", algorithm="RS256"),
        token(0, by="p384", headers={"kid": "rsa"}),
        token(0, by="p256", headers={"kid": "rsa"}),
        token(0, by="p256"),
    ):
        with pytest.raises(UnknownKeyError):
            checked(jwks, bad)


def test_a_token_that_names_no_key_fits_the_only_one() -> None:
    bare = token(0, by="p256", headers={"kid": None})
    assert checked(Jwks.parse(document(jwk("p256"), jwk("rsa"))), bare)
    with pytest.raises(SignatureError, match="2 keys"):
        checked(Jwks.parse(document(jwk("p256"), jwk("p256", kid="again"))), bare)


@pytest.mark.parametrize("more", [{"crit": ["exp"]}, {"b64": False}])
def test_a_header_that_changes_what_a_token_means_is_refused(more: dict[str, Any]) -> None:
    text = token(0).decode()
    bad = ".".join((encoded(header(text) | more), *text.split(".")[1:]))
    with pytest.raises(SignatureError, match="not supported"):
        checked(Jwks.parse(document()), bad.encode())


@pytest.mark.parametrize(
    "text",
    ["", ".", "a.b", "a.b.c.d", "..", "!.!.!", f"{encoded([])}.a.b", f"{encoded('x')}.a.b",
     base64.urlsafe_b64encode(b"[" * 9000).decode() + ".a.b",
     base64.urlsafe_b64encode(b"\xff\xfe").decode() + ".a.b", "é.a.b"],
)  # fmt: skip
def test_other_text_than_a_token_is_refused(text: str) -> None:
    with pytest.raises(SignatureError):
        header(text)


def test_keys_of_no_use_do_not_count() -> None:
    useless: list[Any] = [
        None, [], {}, {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}, {"kty": "RSA"}, {"kty": []},
        jwk("rsa", n="AQAB"), jwk("rsa", n=5), jwk("rsa", use="enc"), jwk("rsa", alg="HS256"),
        jwk("rsa", key_ops=["encrypt"]), jwk("rsa", key_ops=5), jwk("rsa", kid=5),
        jwk("p256", crv="P-384"), jwk("p256", crv=["P-256"]), jwk("p256", x="AAAA"),
        jwk("p256", crv="secp256k1"), jwk("ed25519", crv="X25519"),
    ]  # fmt: skip
    with pytest.raises(JwksError, match="no public key"):
        Jwks.parse(document(*useless))
    assert [key.kid for key in Jwks.parse(document(*useless, jwk("rsa"))).keys] == ["rsa"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no list"),
        (b'{"keys": {}}', "no list"),
        (b'{"keys": []}', "no public key"),
        (json.dumps({"keys": [{}] * 257}).encode(), "more than 256 keys"),
        (b" " * (512 * 1024 + 1), "bytes"),
    ],
)
def test_other_documents_than_a_jwks_are_errors(data: bytes, words: str) -> None:
    with pytest.raises(JwksError, match=words):
        Jwks.parse(data)


def test_a_document_has_so_many_keys_and_no_more() -> None:
    of_no_use = [{"kty": "oct"}] * (KEYS_MAX - 1)
    assert Jwks.parse(document(jwk("p256"), *of_no_use)).keys
    with pytest.raises(JwksError, match=f"more than {KEYS_MAX} keys"):
        Jwks.parse(document(jwk("p256"), *of_no_use, {"kty": "oct"}))
