"""Why a connection has ended, as it is counted and logged."""

import pytest

from downconvert.gateway.figures import End
from downconvert.gateway.network.ended import SilentBrokerError, end_of, hang_up
from downconvert.gateway.topology import Address
from downconvert.protocol.errors import BadRequestError


@pytest.mark.parametrize(
    ("is_login", "has_expired", "end"),
    [
        (True, False, End.LOGIN),
        (False, False, End.REQUEST),
        (False, True, End.EXPIRED),
        (True, True, End.EXPIRED),
    ],
)
def test_a_session_that_ends_says_why(is_login: bool, has_expired: bool, end: End) -> None:
    error = hang_up("the reason", is_login=is_login, has_expired=has_expired)
    assert (str(error), end_of(error)) == ("the reason", end)


def test_errors_that_say_nothing_of_the_end_are_not_guessed() -> None:
    assert end_of(BadRequestError("anything")) is End.REQUEST
    assert end_of(TimeoutError()) is End.TIMEOUT
    assert end_of(SilentBrokerError(Address("cluster", 9092), 30.0)) is End.CLUSTER
    assert end_of(OSError()) is None
    assert end_of(ValueError()) is None
