"""Clients that connect at once, and one question to their broker."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.network import cluster_broker
from downconvert.gateway.network.cluster_broker import ClusterBroker
from downconvert.gateway.network.sockets.ended import UnreachableError
from downconvert.gateway.topology import BOOTSTRAP, Address, Ports, Topology
from downconvert.protocol.schemas import Message
from tests.downconvert.gateway.network.sockets.connected import in_loop

ADDRESS = Address("broker.test", 9092)
VERSIONS = Message(error_code=0, api_keys=[])
NODE = 3
COUNT = 5


class World:
    """A broker whose response comes when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, node_id: int = NODE) -> None:
        self.reached: list[asyncio.Future[Message]] = []
        self.now = 100.0
        config = GatewayConfig(bootstrap=(ADDRESS,))
        self.gateway: Any = SimpleNamespace(
            config=config,
            topology=Topology(config.bootstrap, Ports(9092, {})),
            certificates=SimpleNamespace(cluster=None),
            counters=SimpleNamespace(broker_answered=None),
            report_broker=None,
            pool=None,
            budget=None,
            cluster_failure=None,
        )
        self.broker = ClusterBroker(self.gateway, node_id, lambda: self.now)

        async def reach(*_: object, **__: object) -> Any:
            response = asyncio.get_running_loop().create_future()
            self.reached.append(response)
            return SimpleNamespace(api_versions=await response)

        monkeypatch.setattr(cluster_broker, "reach", reach)

    async def versions(self) -> Message:
        """As a client's connection asks."""
        found = await self.broker.recent_api_versions()
        return found or (await self.broker.reach(None)).api_versions

    async def begin(self, count: int = COUNT) -> list["asyncio.Task[Message]"]:
        tasks = [asyncio.create_task(self.versions()) for _ in range(count)]
        await turns()
        return tasks


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(main: Coroutine[Any, Any, None]) -> None:
    in_loop(asyncio.wait_for(main, 30))


def test_clients_that_come_at_once_ask_the_broker_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)

    async def use() -> None:
        tasks = await world.begin()
        (response,) = world.reached
        response.set_result(VERSIONS)
        assert await asyncio.gather(*tasks) == [VERSIONS] * COUNT
        assert len(world.reached) == 1
        world.now += cluster_broker.RECENT + 0.1
        tasks = await world.begin()
        assert len(world.reached) == 2, "the response is old now"
        world.reached[1].set_result(VERSIONS)
        await asyncio.gather(*tasks)

    run(use())


def test_the_failure_of_one_client_is_not_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been refused for its own credentials."""
    world = World(monkeypatch)

    async def use() -> None:
        first, *others = await world.begin()
        world.reached[0].set_exception(UnreachableError("refused"))
        await turns()
        with pytest.raises(UnreachableError, match="refused"):
            await first
        for response in world.reached[1:]:
            response.set_result(VERSIONS)
        assert await asyncio.gather(*others) == [VERSIONS] * (COUNT - 1)

    run(use())


def test_a_client_waits_for_the_question_of_another_no_longer_than_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one may have found a broker that hangs."""
    monkeypatch.setattr(cluster_broker, "RECENT", 0.05)
    world = World(monkeypatch)

    async def use() -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        tasks = await world.begin(2)
        while len(world.reached) < 2:
            await asyncio.sleep(0.001)
        assert clock() - began >= cluster_broker.RECENT
        world.reached[1].set_result(VERSIONS)
        assert await tasks[1] == VERSIONS
        assert not tasks[0].done()
        tasks[0].cancel()

    run(use())


@pytest.mark.parametrize("node_id", [BOOTSTRAP, NODE])
def test_only_a_failure_to_reach_any_broker_is_a_failure_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, node_id: int
) -> None:
    world = World(monkeypatch, node_id)

    async def use() -> None:
        (task,) = await world.begin(1)
        world.reached[0].set_exception(UnreachableError("it hangs"))
        with pytest.raises(UnreachableError):
            await task

    run(use())
    assert world.gateway.cluster_failure == ("it hangs" if node_id == BOOTSTRAP else None)
