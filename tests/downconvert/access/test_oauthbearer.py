"""The messages of OAUTHBEARER. Logins of whole clients: tests of handlers/sasl.py, and of the
gateway's login.py."""

import pytest

from downconvert.access.credentials import AuthenticationError
from downconvert.access.oauthbearer import parse_first


@pytest.mark.parametrize(
    ("message", "acts_as"),
    [
        (b"n,,\x01auth=Bearer a.b.c\x01\x01", ""),
        (b"y,,\x01auth=bearer  a.b.c\x01\x01", ""),
        (b"n,a=ann=2Cb=3D,\x01host=x\x01auth=Bearer a.b.c\x01port=9092\x01\x01", "ann,b="),
        (b"n,,\x01auth=Bearer a.b.c\x01extension=value with = and blanks\x01\x01", ""),
    ],
)
def test_a_first_message_holds_a_token(message: bytes, acts_as: str) -> None:
    assert parse_first(message) == (b"a.b.c", acts_as)


@pytest.mark.parametrize(
    "message",
    [b"", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Bearer a.b.c\x01", b"n,,auth=Bearer a\x01\x01",
     b"n,,\x01auth=Basic a\x01\x01", b"n,,\x01auth=Bearer \x01\x01",
     b"n,,\x01auth=Bearer a b\x01\x01",
     b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01", b"p=x,,\x01auth=Bearer a\x01\x01",
     b"n,a=\xff,\x01auth=Bearer a\x01\x01", b"n,,\x01auth=Bearer \xff\x01\x01",
     b"n,,\x01" + b"a=b\x01" * 50_000 + b"c", b"n,a=" + b"=" * 100_000],
)  # fmt: skip
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationError, match="invalid credentials"):
        parse_first(message)
