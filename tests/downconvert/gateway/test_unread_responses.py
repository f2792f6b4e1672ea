"""Clients that do not read large responses take bounded memory of a gateway."""

import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final

import pytest

from downconvert.access.rights import Access
from downconvert.gateway.config import Limits
from downconvert.gateway.figures import End
from downconvert.gateway.network.client_request import PREFIX_SIZE
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.unread import UNREAD
from records.units import MiB
from tests.downconvert.broker.talking import SMALL_BUFFER, Talk
from tests.waiting import wait_for

from .scripted import Scripted
from .serving import gateway

SIZE: Final = 8 * MiB  # of a response: more than a socket takes
LIMIT: Final = 3 * SIZE
CLIENTS: Final = 6
NAME: Final = 32_000  # bytes


class Large(Scripted):
    """Its groups have members with long names."""

    def answer(self, api: ApiKey, body: Message) -> Message:
        if api is not ApiKey.DescribeGroups:
            return super().answer(api, body)
        member = Message(member_id="m" * NAME)
        return Message(groups=[Message(group_id="g", members=[member] * (SIZE // NAME + 1))])


@pytest.fixture
def running() -> Iterator[Gateway]:
    """It reads these responses, because its clients may not see all groups."""
    limits, access = Limits(requests_memory=LIMIT), Access(groups=("g*",))
    with Large(0) as broker:
        broker.versions |= {ApiKey.DescribeGroups: 4}
        with gateway(broker.port, limits=limits, access=access) as running:
            wait_for(lambda: running.topology.api_versions is not None)
            yield running


def stuck(running: Gateway, stack: ExitStack, groups: list[str], source: str = "") -> Talk:
    """A client that does not read its response."""
    free, ends = running.unread.free, running.figures().ends.total()
    talk = Talk(running.address, receive_buffer=SMALL_BUFFER, source=source)
    stack.enter_context(talk)
    talk.send(ApiKey.DescribeGroups, 4, Message(groups=groups))
    wait_for(lambda: running.unread.free < free or running.figures().ends.total() > ends)
    return talk


def test_responses_that_nobody_reads_take_no_more_than_the_limit(
    running: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with ExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        talks = [stuck(running, stack, ["g"]) for _ in range(CLIENTS)]
        wait_for(lambda: running.figures().ends[End.TIMEOUT] == CLIENTS - 2)
        size, peak = tracemalloc.get_traced_memory()
        assert size < 3 * LIMIT  # the broker keeps the last response of a connection twice
        assert peak < 3 * LIMIT + 4 * SIZE  # with the one that is made
        assert 0 <= running.unread.free < SIZE
        assert len(talks[-1].receive()) > SIZE
    assert f": {UNREAD} [" in caplog.text
    wait_for(lambda: running.unread.free == LIMIT)


def test_a_slow_client_gets_its_response_beside_others_that_do_not_read(running: Gateway) -> None:
    """They connect from another address, and it has read nothing for a longer time."""
    with ExitStack() as stack:
        slow = stuck(running, stack, ["g"])
        for number in range(1, CLIENTS):
            stuck(running, stack, ["g"], "127.0.0.2")
            wait_for(partial(lambda ended: running.figures().ends.total() == ended, number - 1))
        assert len(slow.receive()) > SIZE


def test_a_request_counts_until_its_response_waits_for_its_client(running: Gateway) -> None:
    """Otherwise, requests of clients that do not read would delay those of others."""
    names = [f"g{number:07}" for number in range(PREFIX_SIZE // 4)]
    with ExitStack() as stack:
        stuck(running, stack, names)
        assert running.requests.free == LIMIT
        assert running.unread.free < LIMIT
