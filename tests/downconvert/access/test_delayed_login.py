"""A login that waits after failed ones, and which of its ends are failures."""

from collections.abc import Generator

import pytest

from downconvert.access.claim import Claim
from downconvert.access.credentials import (
    PLAIN,
    Authentication,
    AuthenticationError,
    Credentials,
    Proved,
)
from downconvert.access.delayed_login import DelayedLogin
from downconvert.access.failed_logins import FIRST_WAIT, FailedLogins

HERE = "10.0.0.1"
RIGHT, WRONG = b"\0ann\0secret", b"\0ann\0guess"


@pytest.fixture
def failed() -> FailedLogins:
    return FailedLogins()


def login(failed: FailedLogins) -> DelayedLogin:
    conversation = Credentials({"ann": "secret"}).conversation(PLAIN)
    return DelayedLogin(Authentication(conversation, is_raw=False), Claim(PLAIN), failed, HERE)


def wait(failed: FailedLogins, now: float = 0.0) -> float:
    """Of the next attempt, which then is dropped."""
    return failed.begin("ann", HERE, now).wait


def admitted(_: Proved) -> None:
    """Every user is."""


def refused(_: Proved) -> None:
    raise AuthenticationError("no rule")


def test_a_wrong_password_delays_the_next_attempt(failed: FailedLogins) -> None:
    one = login(failed)
    assert (one.begin(WRONG, 0.0), one.claimed) == (0.0, "ann")
    with pytest.raises(AuthenticationError):
        one.take(WRONG, 0.0, 0.0, admitted)
    assert login(failed).begin(RIGHT, 0.0) == FIRST_WAIT


def test_a_user_that_is_not_admitted_has_failed(failed: FailedLogins) -> None:
    one = login(failed)
    one.begin(RIGHT, 0.0)
    with pytest.raises(AuthenticationError):
        one.take(RIGHT, 0.0, 0.0, refused)
    assert wait(failed) == FIRST_WAIT


def test_an_attempt_that_succeeds_does_not_count(failed: FailedLogins) -> None:
    failed.fail("ann", HERE, 0.0)
    for _ in range(5):
        one = login(failed)
        assert one.begin(RIGHT, 0.0) == FIRST_WAIT
        assert isinstance(one.take(RIGHT, 0.0, 0.0, admitted), Proved)
    assert wait(failed) == FIRST_WAIT


def test_a_failure_that_is_told_in_two_steps_counts_once(failed: FailedLogins) -> None:
    """The mechanism answers with a challenge first; whatever the client then says gets the
    error."""

    def told() -> Generator[bytes | None, tuple[bytes, float], Proved]:
        yield b""
        raise AuthenticationError("no", why="because", challenge=b"challenge")

    one = DelayedLogin(Authentication(told(), is_raw=False), Claim(PLAIN), failed, HERE)
    one.begin(WRONG, 0.0)
    assert one.take(WRONG, 0.0, 0.0, admitted) == b"challenge"
    assert one.refusal == "failed login: because"
    assert one.begin(b"", 0.0) == 0.0
    with pytest.raises(AuthenticationError):
        one.take(b"", 0.0, 0.0, admitted)
    assert wait(failed) == FIRST_WAIT


def test_a_failure_is_of_the_user_that_was_claimed_first(failed: FailedLogins) -> None:
    """A refused token proves nothing, and no later one may be of another user."""
    one = login(failed)
    one.begin(b"\0bob\0guess", 0.0)
    with pytest.raises(AuthenticationError):
        one.take(b"\0bob\0guess", 0.0, 0.0, admitted)
    assert (wait(failed), failed.begin("bob", HERE, 0.0).wait) == (0.0, FIRST_WAIT)
