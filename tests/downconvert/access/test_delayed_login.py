"""A login waits after failed ones, and records how it ended: once."""

import pytest

from downconvert.access.claim import Claim
from downconvert.access.credentials import (
    PLAIN,
    SCRAM,
    Authentication,
    AuthenticationError,
    Conversation,
    Credentials,
    Proved,
)
from downconvert.access.delayed_login import DelayedLogin
from downconvert.access.failed_logins import FIRST_WAIT, FailedLogins
from downconvert.access.oauthbearer import OAUTHBEARER

HERE, ELSEWHERE = "10.0.0.1", "10.0.0.2"
RIGHT, WRONG = b"\0ann\0secret", b"\0ann\0guess"
USERS = Credentials({"ann": "secret", "bob": "other"})


def plain(failed: FailedLogins, address: str = HERE) -> DelayedLogin:
    authentication = Authentication(USERS.conversation(PLAIN), is_raw=True)
    return DelayedLogin(authentication, Claim(PLAIN), failed, address)


def attempt(failed: FailedLogins, token: bytes, now: float, address: str = HERE) -> float:
    """Logs in with one token, and ends. Returns how long it had to wait."""
    login = plain(failed, address)
    wait = login.begin(token, now)
    try:
        login.take(token, now + wait, 0.0, lambda _: None)
    except AuthenticationError:
        assert token != RIGHT
    return wait


def refuse(_: Proved) -> None:
    raise AuthenticationError("not at this address")


def test_a_failure_delays_that_user_at_that_address() -> None:
    failed = FailedLogins()
    assert attempt(failed, WRONG, 0.0) == 0
    assert attempt(failed, RIGHT, 0.0, ELSEWHERE) == 0
    assert attempt(failed, b"\0bob\0other", 0.0) == 0
    assert attempt(failed, WRONG, 0.0) == FIRST_WAIT
    assert attempt(failed, WRONG, FIRST_WAIT) == pytest.approx(2 * FIRST_WAIT)


def test_a_success_does_not_count_and_takes_no_failure_away() -> None:
    failed = FailedLogins()
    attempt(failed, WRONG, 0.0)
    waits = [attempt(failed, RIGHT, 0.0) for _ in range(4)]
    assert waits == [FIRST_WAIT] * 4


def test_a_user_whom_the_server_does_not_admit_has_failed() -> None:
    failed = FailedLogins()
    login = plain(failed)
    assert login.begin(RIGHT, 0.0) == 0
    with pytest.raises(AuthenticationError):
        login.take(RIGHT, 0.0, 0.0, refuse)
    assert attempt(failed, RIGHT, 0.0) == FIRST_WAIT


def test_the_second_token_of_scram_waits_and_the_first_does_not() -> None:
    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    mechanism = SCRAM[0]
    authentication = Authentication(USERS.conversation(mechanism), is_raw=False)
    login = DelayedLogin(authentication, Claim(mechanism), failed, HERE)
    assert not login.is_raw
    assert login.claimed == ""
    assert login.begin(b"n,,n=ann,r=abc", 0.0) == 0
    assert login.claimed == "ann"
    assert isinstance(login.take(b"n,,n=ann,r=abc", 0.0, 0.0, lambda _: None), bytes)
    assert login.begin(b"c=biws,r=abc,p=AAAA", 0.0) == FIRST_WAIT


def test_a_refusal_with_a_challenge_counts_once_and_says_why() -> None:
    def refuses() -> Conversation:
        yield b""
        raise AuthenticationError("words", why="it has expired", challenge=b"{}")

    failed = FailedLogins()
    login = DelayedLogin(Authentication(refuses(), is_raw=False), Claim(OAUTHBEARER), failed, HERE)
    assert login.refusal == ""
    assert login.begin(b"token", 0.0) == 0
    assert login.take(b"token", 0.0, 0.0, lambda _: None) == b"{}"
    assert login.refusal == "failed login: it has expired"
    login.begin(b"\1", 0.0)
    with pytest.raises(AuthenticationError, match="words"):
        login.take(b"\1", 0.0, 0.0, lambda _: None)
    assert [failed.begin("", HERE, 0.0).wait for _ in range(2)] == [FIRST_WAIT, 2 * FIRST_WAIT]


def test_a_token_that_cannot_be_checked_yet_is_neither_a_failure_nor_a_success() -> None:
    def waits() -> Conversation:
        token, _ = yield b""
        token, _ = yield None
        return Proved("ann", token)

    failed = FailedLogins()
    failed.fail("ann", HERE, 0.0)
    login = DelayedLogin(Authentication(waits(), is_raw=True), Claim(PLAIN), failed, HERE)
    assert login.is_raw
    assert login.begin(RIGHT, 0.0) == FIRST_WAIT
    assert login.take(RIGHT, 0.1, 0.0, lambda _: None) is None
    assert failed.begin("ann", HERE, 0.0).wait == 2 * FIRST_WAIT  # it is still under way
    admitted: list[Proved] = []
    assert login.take(b"again", 0.2, 0.0, admitted.append) == Proved("ann", b"again")
    assert admitted == [Proved("ann", b"again")]
