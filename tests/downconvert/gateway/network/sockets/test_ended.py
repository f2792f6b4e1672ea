"""Why a connection has ended, as it is counted and logged."""

import pytest

from downconvert.gateway.figures import End
from downconvert.gateway.network.sockets.ended import SilentBrokerError, end_of, hang_up
from downconvert.gateway.session.exchanges import HangUp
from downconvert.gateway.topology import Address
from downconvert.protocol.errors import BadRequestError


@pytest.mark.parametrize(
    ("ends", "end"),
    [
        (HangUp("the reason"), End.REQUEST),
        (HangUp("the reason", is_login=True), End.LOGIN),
        (HangUp("the reason", has_expired=True), End.EXPIRED),
        (HangUp("the reason", is_login=True, has_expired=True), End.EXPIRED),
        (HangUp("the reason", is_over_limit=True), End.LIMIT),
        (HangUp("the reason", is_login=True, is_over_limit=True), End.LIMIT),
    ],
)
def test_a_session_that_ends_says_why(ends: HangUp, end: End) -> None:
    error = hang_up(ends)
    assert (str(error), end_of(error)) == ("the reason", end)


def test_an_unknown_error_gives_no_reason_for_the_end() -> None:
    assert end_of(BadRequestError("anything")) is End.REQUEST
    assert end_of(TimeoutError()) is End.TIMEOUT
    assert end_of(SilentBrokerError(Address("cluster", 9092), 30.0)) is End.CLUSTER
    assert end_of(OSError()) is None
    assert end_of(ValueError()) is None
