"""A client's way to its broker: when it is made, and when it is closed."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.gateway.network.broker_link import BrokerLink
from downconvert.gateway.network.sockets.ended import UnreachableError
from downconvert.protocol.schemas import Message

VERSIONS = Message(error_code=0, api_keys=[Message(api_key=1, min_version=4, max_version=17)])
OTHERS = Message(error_code=0, api_keys=[Message(api_key=1, min_version=4, max_version=18)])
CREDENTIALS = object()


class World:
    """A link whose broker is the test's. `recent`: its response to another connection."""

    def __init__(self, recent: Message | None = None, served: Message = VERSIONS) -> None:
        self.reached: list[object] = []
        self.closed = self.waits = self.ends = 0
        stream = SimpleNamespace(peer="the broker", has_ended=False, on_end=None)
        self.upstream: Any = SimpleNamespace(
            stream=stream, api="", take_api_versions=lambda: served, close=self._close
        )
        identity = SimpleNamespace(credentials=CREDENTIALS)
        session: Any = SimpleNamespace(identity=identity, api="Metadata", full_client_id="c")
        passing: Any = SimpleNamespace(reach=lambda _: None)

        async def recent_api_versions() -> Message | None:
            return recent

        async def reach(credentials: object) -> Any:
            self.reached.append(credentials)
            return self.upstream

        broker: Any = SimpleNamespace(recent_api_versions=recent_api_versions, reach=reach)
        client: Any = SimpleNamespace()
        self.link = BrokerLink(client, session, broker, passing)
        self.link.on_waiting, self.link.on_end = self._wait, self._end

    def _close(self) -> None:
        self.closed += 1

    def _wait(self) -> None:
        self.waits += 1

    def _end(self) -> None:
        self.ends += 1

    async def forward(self) -> None:
        """Forwards a request that has no response."""
        self.sizes: list[int] = []

        async def pass_to(_: object) -> None:
            return

        request: Any = SimpleNamespace(pass_to=pass_to, prefix=b"")
        reply: Any = SimpleNamespace(expects_response=False)
        await self.link.forward(reply, request, lambda size: self.sizes.append(size) or 0.0)  # type: ignore[func-returns-value]


def test_no_broker_is_reached_for_versions_that_another_client_has_just_asked_for() -> None:
    world = World(recent=VERSIONS)
    assert asyncio.run(world.link.api_versions()) is VERSIONS
    assert not world.reached


def test_a_broker_is_reached_once_with_the_credentials_of_the_client() -> None:
    world = World()

    async def use() -> None:
        assert await world.link.api_versions() is VERSIONS
        await world.forward()

    asyncio.run(use())
    assert world.reached == [CREDENTIALS]
    assert world.sizes == [0], "a request without a response is charged"
    assert world.upstream.api == "Metadata", "for metrics"
    world.upstream.stream.on_end()
    assert world.ends == 1


def test_a_broker_with_other_versions_than_the_client_got_is_not_used() -> None:
    world = World(recent=VERSIONS, served=OTHERS)

    async def use() -> None:
        await world.link.api_versions()
        with pytest.raises(UnreachableError, match="other versions than a moment ago"):
            await world.forward()

    asyncio.run(use())


@pytest.mark.parametrize("waits", [True, False])
def test_a_client_that_goes_closes_its_brokers_connection_if_it_waits(waits: bool) -> None:
    """Otherwise its earlier requests are still handled."""
    world = World()

    async def use() -> None:
        await world.link.api_versions()

        async def response() -> None:
            if waits:
                world.link.client_ended()

        await world.link.while_waiting(response())
        if not waits:
            world.link.client_ended()

    asyncio.run(use())
    assert world.closed == waits
    assert world.link.has_client_gone is waits


def test_each_wait_for_the_broker_begins_with_a_look_at_the_client() -> None:
    """It may have gone before."""
    world = World()
    asyncio.run(world.link.api_versions())
    assert world.waits == 2, "for the response to others, and for the connection"


def test_a_closed_link_refers_to_its_owner_no_more() -> None:
    world = World()
    asyncio.run(world.link.api_versions())
    world.link.close()
    assert world.closed == 1
    world.link.on_end()
    world.link.on_waiting()
    assert (world.ends, world.waits) == (0, 2)
