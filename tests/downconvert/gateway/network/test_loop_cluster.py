"""How the event loop keeps up with a cluster, whose brokers say what a test wants.

Not here: how it ends (test_loop.py), how one broker is reached (test_reaching.py)."""

import asyncio
import socket
from dataclasses import replace
from typing import Final

import pytest

from downconvert.access.rights import Access, parse_network
from downconvert.gateway import topology
from downconvert.gateway.figures import End
from downconvert.gateway.identity import ClientRule, Identities
from downconvert.gateway.network import loop
from downconvert.gateway.security import ClusterSecurity, Credentials
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.scripted import Scripted
from tests.downconvert.gateway.serving import Wire, gateway
from tests.ports import LOOPBACK, free_ports
from tests.waiting import wait_for

GROUP: Final = Message(group_id="g", generation_id=1, member_id="m")
REFRESH, RETRY = 7.25, 1.5  # seconds
FAST: Final = 0.02


def unready(running: Gateway) -> list[str]:
    return running.figures().unready


def test_a_silent_cluster_is_asked_less_and_less_often_and_then_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each wait is twice as long as the one before, up to the usual one. After a response the next
    failure begins anew."""
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds not in (0, loop.SECOND):
            slept.append(seconds)
        await real(min(seconds, 0.005))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(loop, "RETRY_SECONDS", RETRY)
    with Scripted(0) as broker:
        broker.responses = lambda number: number in (4, 5)
        with gateway(broker.port, refresh_seconds=REFRESH):
            wait_for(lambda: len(slept) >= 9)
    waits = [RETRY, 2 * RETRY, 4 * RETRY, REFRESH]
    assert slept[:9] == [*waits, REFRESH, REFRESH, *waits[:3]]


def test_a_cluster_that_knows_no_broker_yet_has_not_answered() -> None:
    with Scripted() as broker, gateway(broker.port, refresh_seconds=FAST) as running:
        wait_for(lambda: broker.asked.count(ApiKey.Metadata) >= 3)
        assert unready(running) == ["the cluster: the cluster has not answered yet"]
        broker.brokers = [0]
        wait_for(lambda: not unready(running))
        broker.brokers = []  # one that has just started: the others are still there
        asked = broker.asked.count(ApiKey.Metadata)
        wait_for(lambda: broker.asked.count(ApiKey.Metadata) >= asked + 3)
        assert unready(running) == []
        assert running.topology.nodes.keys() == {0}


def test_a_broker_without_a_port_is_a_reason_until_it_is_gone() -> None:
    with (
        Scripted(0, 1) as broker,
        socket.create_server((LOOPBACK, 0)) as other,
        gateway(
            broker.port,
            refresh_seconds=FAST,
            node_ports={1: other.getsockname()[1]},
            node_port_first=0,
        ) as running,
    ):
        wait_for(lambda: any("broker 1: port" in one for one in unready(running)))
        broker.brokers = [5]
        wait_for(lambda: running.topology.nodes.keys() == {5})
        wait_for(lambda: not any("broker 1" in one for one in unready(running)))


def test_a_broker_without_a_port_does_not_hide_the_others_from_clients() -> None:
    """It is not disconnected again and again."""
    with (
        Scripted(0, 1) as broker,
        socket.create_server((LOOPBACK, 0)) as other,
        gateway(
            broker.port,
            nodes=1,
            node_ports={0: free_ports(1)[0], 1: other.getsockname()[1]},
        ) as running,
    ):
        wait_for(lambda: any("broker 1: port" in one for one in unready(running)))
        with Wire(running.address) as client:
            for _ in range(3):
                response = client.ask(ApiKey.Metadata, 1, Message(topics=None))
                assert [one.node_id for one in response.brokers] == [0]


def test_a_cluster_is_unready_if_its_bootstrap_servers_fail_but_not_if_one_broker_does() -> None:
    (closed,) = free_ports(1)
    with Scripted(0, 1) as broker, gateway(broker.port, nodes=2) as running:
        broker.ports[1] = closed
        wait_for(lambda: not unready(running))
        with Wire(Address(LOOPBACK, running.config.node_ports[1])) as client:
            client.send(ApiKey.Heartbeat, 3, GROUP)
            assert client.has_ended()
        assert unready(running) == []
        broker.responses = lambda _: False
        with Wire(running.address) as client:
            client.send(ApiKey.Heartbeat, 3, GROUP)
            assert client.has_ended()
        (reason,) = unready(running)
        assert reason.startswith(f"the cluster: broker {LOOPBACK}:{broker.port}: ")


def test_a_port_that_is_free_again_is_opened() -> None:
    with (
        Scripted(1) as broker,
        socket.create_server((LOOPBACK, 0)) as other,
        gateway(
            broker.port, refresh_seconds=FAST, node_ports={1: other.getsockname()[1]}
        ) as running,
    ):
        wait_for(lambda: any("broker 1: port" in one for one in unready(running)))
        port = other.getsockname()[1]
        other.close()
        wait_for(lambda: not unready(running))
        with socket.create_connection((LOOPBACK, port), timeout=60.0):
            pass


def test_the_cluster_is_asked_with_the_credentials_of_each_clients_rule() -> None:
    """And for its brokers with those of the gateway."""
    own, ann = (
        Credentials(mechanism="PLAIN", username=name, secret="s") for name in ("own", "ann")
    )
    rule = ClientRule(access=Access(), credentials=ann, networks=(parse_network("127.0.0.0/8"),))
    with (
        Scripted(0) as broker,
        gateway(
            broker.port,
            security=ClusterSecurity(credentials=own),
            identities=Identities(rules=(rule,)),
        ) as running,
    ):
        wait_for(lambda: not unready(running))
        assert set(broker.users) == {"own"}
        with Wire(running.address) as client:
            assert client.ask(ApiKey.Heartbeat, 3, GROUP).error_code == 0
        assert broker.users[-1] == "ann"
        running.reload(replace(running.config, identities=Identities()))
        with Wire(running.address) as client:
            assert client.ask(ApiKey.Heartbeat, 3, GROUP).error_code == 0
        assert broker.users[-1] == "own"


def test_a_clients_connection_counts_for_its_limit_until_it_ends() -> None:
    with (
        Scripted(0) as broker,
        gateway(broker.port, access=Access(connections=1)) as running,
    ):
        wait_for(lambda: not unready(running))
        for number in range(3):
            with Wire(running.address) as client:
                assert client.ask(ApiKey.Heartbeat, 3, GROUP).error_code == 0
                with Wire(running.address) as second:
                    second.send(ApiKey.Heartbeat, 3, GROUP)
                    assert second.has_ended()
            ends = {End.CLIENT: number + 1, End.LIMIT: number + 1}
            wait_for(lambda ends=ends: running.figures().ends == ends)  # type: ignore[misc]


@pytest.mark.parametrize("are_same", [True, False])
def test_versions_that_another_connection_got_must_be_those_of_the_broker(
    monkeypatch: pytest.MonkeyPatch, are_same: bool
) -> None:
    """A client got the first ones. Its requests would be translated by them."""
    monkeypatch.setattr(topology, "RECENT", 600.0)
    with Scripted(0) as broker, gateway(broker.port) as running:
        wait_for(lambda: not unready(running))
        with Wire(running.address) as client:
            assert client.ask(ApiKey.Heartbeat, 3, GROUP).error_code == 0
        accepted = broker.accepted
        if not are_same:
            broker.versions[ApiKey.Heartbeat] = 2
        with Wire(running.address) as client:
            response = client.ask(ApiKey.ApiVersions, 0, Message())
            assert {one.api_key: one.max_version for one in response.api_keys}[
                ApiKey.Heartbeat
            ] == 3
            assert broker.accepted == accepted  # nobody was asked
            client.send(ApiKey.Heartbeat, 3, GROUP)
            if are_same:
                assert client.receive()
            else:
                assert client.has_ended()
        reasons = {End.CLIENT: 2} if are_same else {End.CLIENT: 1, End.CLUSTER: 1}
        wait_for(lambda: running.figures().ends == reasons)
