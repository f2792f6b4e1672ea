"""An exchange is over once."""

import pytest

from downconvert.broker.exchange import Exchange
from downconvert.broker.wire.requests import Request, RequestHeader
from downconvert.broker.wire.schemas import ApiKey, Message

from .asking import answer, someone


def exchange(done: list[Exchange]) -> Exchange:
    header = RequestHeader(ApiKey.Heartbeat, 0, 7, None, 0)
    return Exchange(someone(), Request(header, Message(), 10), 0.0, done.append)


def test_an_answer_is_there_when_the_exchange_is_done() -> None:
    done: list[Exchange] = []
    one = exchange(done)
    assert not one.is_done
    one.reply(Message(error_code=25))
    assert (done, one.is_done, one.hangs_up) == ([one], True, False)
    assert answer(one).error_code == 25


def test_nothing_may_be_the_answer_and_so_may_hanging_up() -> None:
    done: list[Exchange] = []
    silent, rude = exchange(done), exchange(done)
    silent.reply_nothing()
    rude.hang_up()
    assert done == [silent, rude]
    assert (silent.send, silent.hangs_up, rude.send, rude.hangs_up) == (None, False, None, True)


def test_a_second_answer_is_a_defect() -> None:
    one = exchange([])
    one.reply_nothing()
    with pytest.raises(AssertionError, match="answered twice"):
        one.reply(Message())
