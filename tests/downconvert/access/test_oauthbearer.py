"""The messages of OAUTHBEARER. Logins of whole clients: tests of handlers/sasl.py, and of the
gateway's login.py."""

from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.access.credentials import Authentication, AuthenticationError, Proved
from downconvert.access.oauthbearer import conversation, parse_first
from downconvert.access.tokens import KEY_WAIT, NoKeyYetError, TokenError


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


class SlowKeys:
    """Tokens whose keys never come."""

    def __init__(self, keys_at: float) -> None:
        self.settings = SimpleNamespace(scope=())
        self.judged: list[tuple[float, bool]] = []
        self._keys_at = keys_at

    def judge(self, token: bytes, now: float, *, waits: bool) -> Any:
        assert token == b"a.b.c"
        self.judged.append((now, waits))
        if now >= self._keys_at:
            return SimpleNamespace(name="ann", groups=("staff",), expires_at=1e9)
        raise NoKeyYetError if waits else TokenError("no such key")


@pytest.mark.parametrize("wait", [0.0, 1.0, KEY_WAIT - 1, KEY_WAIT + 1, 10 * KEY_WAIT])
def test_a_token_is_checked_again_at_the_time_of_each_attempt_until_keys_took_too_long(
    wait: float,
) -> None:
    tokens: Any = SlowKeys(1000.0 + wait)
    login = Authentication(conversation(tokens), is_raw=False)
    now, message = 1000.0, b"n,,\x01auth=Bearer a.b.c\x01\x01"
    while (taken := login.take(message, now)) is None and now < 2000:
        now += 0.5
    assert tokens.judged == [
        (1000 + at / 2, at / 2 < KEY_WAIT) for at in range(int(2 * (now - 1000)) + 1)
    ]
    if wait < KEY_WAIT:
        assert taken == Proved("ann", groups=("staff",), expires_at=1e9)
        assert now == 1000 + wait
    else:
        assert isinstance(taken, bytes)
        assert now == 1000 + KEY_WAIT
