"""An exchange is over once."""

import pytest

from downconvert.broker.exchange import Exchange
from downconvert.broker.owner import Owner
from downconvert.protocol.requests import Request, RequestHeader
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import FREE_SIZE

from .asking import response_of, someone

HEADER = RequestHeader(ApiKey.Heartbeat, 0, 7, None, 0)


def exchange(done: list[Exchange]) -> Exchange:
    return Exchange(someone(), Request(HEADER, Message(), 10), 0.0, done.append)


def test_a_response_is_there_when_the_exchange_is_done() -> None:
    done: list[Exchange] = []
    one = exchange(done)
    assert not one.is_done
    one.reply(Message(error_code=25))
    assert (done, one.is_done, one.close_after_reply) == ([one], True, False)
    assert response_of(one).error_code == 25


def test_the_body_of_a_large_request_is_released_when_its_response_is_there() -> None:
    """The client may read its response slowly."""
    for size, is_released in ((FREE_SIZE, False), (FREE_SIZE + 1, True)):
        body = Message(error_code=1)
        one = Exchange(someone(), Request(HEADER, body, size), 0.0)
        one.reply(Message(error_code=25))
        assert (one.request.body is not body) is is_released
        assert (one.request.size, one.request.api) == (size, ApiKey.Heartbeat)


def test_nothing_may_be_the_response_and_so_may_hanging_up() -> None:
    done: list[Exchange] = []
    silent, rude = exchange(done), exchange(done)
    silent.reply_nothing()
    rude.hang_up("it is rude")
    assert done == [silent, rude]
    assert (silent.send, silent.close_after_reply, rude.send, rude.close_after_reply) == (
        None,
        False,
        None,
        True,
    )


def test_a_second_response_is_a_defect() -> None:
    one = exchange([])
    one.reply_nothing()
    with pytest.raises(AssertionError, match="answered twice"):
        one.reply(Message())


def test_a_defect_in_a_step_ends_its_own_exchange(caplog: pytest.LogCaptureFixture) -> None:
    owner = Owner()
    done: list[Exchange] = []
    bad, good = (
        Exchange(someone(), Request(HEADER, Message(), 10), 0.0, done.append, owner)
        for _ in range(2)
    )

    def fail(_now: float) -> None:
        raise ValueError("a defect")

    bad.post(fail)
    good.post(lambda _: good.reply(Message(error_code=25)))
    while owner.run_due(0.0):
        pass
    assert done == [bad, good]
    assert (bad.close_after_reply, type(bad.defect)) == (True, ValueError)
    assert response_of(good).error_code == 25
    (record,) = caplog.records
    assert record.exc_info
    assert record.getMessage() == "a defect: Heartbeat of 127.0.0.1 is not answered"


def test_nothing_is_done_for_a_client_that_has_gone() -> None:
    owner = Owner()
    one = Exchange(someone(), Request(HEADER, Message(), 10), 0.0, owner=owner)
    ran: list[float] = []
    one.post(ran.append)
    one.post_turn(ran.append)
    one.abandon()
    assert owner.run_due(0.0)
    assert owner.run_turn(0.0)
    assert not ran
