import json
from base64 import urlsafe_b64encode

import pytest
from scramp import ScramClient

from downconvert.access.claim import Claim
from downconvert.access.tokens import TOKEN_MAX


def encoded(*parts: bytes) -> bytes:
    text = b".".join([*(urlsafe_b64encode(one).rstrip(b"=") for one in parts), b"x"])
    return b"n,,\1auth=Bearer " + text + b"\1\1"


def bearer(claims: object) -> bytes:
    return encoded(b"{}", json.dumps(claims).encode())


def test_plain_claims_a_name_and_may_prove_it_at_once() -> None:
    claim = Claim("PLAIN")
    assert claim.take(b"\0ann\0secret")
    assert claim.user == "ann"


def test_scram_claims_a_name_first_and_may_prove_it_with_the_second_token() -> None:
    claim = Claim("SCRAM-SHA-256")
    assert not claim.take(ScramClient(["SCRAM-SHA-256"], "ann", "x").get_client_first().encode())
    assert claim.user == "ann"
    assert claim.take(b"c=biws,r=0,p=0")
    assert claim.user == "ann"


def test_a_bearer_claims_the_name_in_its_token() -> None:
    claim = Claim("OAUTHBEARER", "client")
    assert claim.take(bearer({"client": "ann", "sub": "other"}))
    assert claim.user == "ann"
    assert not claim.take(b"\1")  # confirms that it was refused


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0",
        b"\xff" * 10,
        b"n,,",
        b"n,,n",
        bearer([]),
        bearer({"sub": 7}),
        bearer({"sub": "x" * TOKEN_MAX}),
        b"n,,\1auth=Bearer x.y\1\1",
        encoded(b"{}", b"[" * (TOKEN_MAX * 2 // 3)),  # deeper than Python's parser goes
    ],
)
def test_tokens_without_a_claim_have_no_user(mechanism: str, token: bytes) -> None:
    claim = Claim(mechanism)
    claim.take(token)
    assert claim.user == ""


@pytest.mark.parametrize(("size", "user"), [(TOKEN_MAX, "ann"), (TOKEN_MAX + 1, "")])
def test_a_token_is_read_up_to_the_largest_that_is_checked(size: int, user: str) -> None:
    token = bearer({"sub": "ann"}).removesuffix(b"\1\1")
    start = token.index(b"Bearer ") + len(b"Bearer ")
    token += b"x" * (size - (len(token) - start)) + b"\1\1"
    claim = Claim("OAUTHBEARER")
    claim.take(token)
    assert claim.user == user
