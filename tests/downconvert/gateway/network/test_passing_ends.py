"""The ends of connections whose requests pass, callback by callback."""

import asyncio

import pytest

from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.streams import CLIENT
from tests.downconvert.gateway.cluster import Through
from tests.waiting import SECONDS

from .sides import Between, request, response, run


@pytest.mark.parametrize("responses", [1, 2])
def test_the_end_comes_with_the_last_response(passing: Through, responses: int) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(b"".join(request(n) for n in range(responses)))
        between.passing.finish()
        for number in range(responses):
            await asyncio.sleep(0)
            assert not task.done()
            between.broker.arrive(response(number))
        assert await asyncio.wait_for(task, SECONDS) is None
        assert between.passing.requests == responses

    run(passing, use)


def test_a_client_that_left_may_have_sent_more_than_what_passes(passing: Through) -> None:
    """The task gets that as soon as all before it are answered."""

    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(request(1) + request(2, client_id="other"))
        between.client.has_ended = True
        between.client.wake()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
        between.broker.arrive(response(1))
        assert await asyncio.wait_for(task, SECONDS) is None
        assert between.client.available == request(2, client_id="other")

    run(passing, use)


def test_a_broker_that_closes_ends_the_requests_under_way(passing: Through) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(request(1))
        between.passing.broker_ended()
        with pytest.raises(ConnectionEndedError, match="the broker closed"):
            await task

    run(passing, use)


def test_a_client_that_left_is_served_until_only_its_last_response_is_missing(
    passing: Through,
) -> None:
    async def use(between: Between) -> None:
        task = await between.begin()
        between.client.arrive(request(1) + request(2) + request(3))
        between.client.has_ended = True
        between.client.wake()
        await asyncio.sleep(0)
        between.broker.arrive(response(1))
        await asyncio.sleep(0)
        assert not task.done()
        between.broker.arrive(response(2))
        with pytest.raises(ConnectionEndedError, match=CLIENT):
            await task
        assert not between.client.sent

    run(passing, use)
