"""How a gateway's event loop ends.

Not here: its work until then (test_server.py)."""

import asyncio
import socket
from pathlib import Path

import pytest

from downconvert.gateway.figures import End
from downconvert.gateway.network import loop
from downconvert.gateway.network.listeners import Listeners
from downconvert.protocol.schemas import ApiKey, Message
from tests.descriptors import open_files
from tests.downconvert.gateway.hanging import Hanging
from tests.downconvert.gateway.serving import Wire, cluster, gateway
from tests.ports import LOOPBACK
from tests.waiting import wait_for

STEPS = 5


def test_idle_clients_of_a_stopping_gateway_count_as_stopped(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path, "t") as (_, port):
        with gateway(port) as running:
            clients = [Wire(running.address) for _ in range(3)]
            for client in clients:
                assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
        assert running.figures().ends == {End.STOPPED: len(clients)}
        for client in clients:
            assert client.has_ended()
            client.socket.close()


def test_a_stopped_gateway_keeps_no_descriptor(tmp_path: Path) -> None:
    with cluster(tmp_path, "t") as (_, port):
        before = open_files()
        with gateway(port) as running, Wire(running.address) as client:
            assert client.ask(ApiKey.Metadata, 1, Message(topics=None)).topics
        # The cluster notices the end of its connection later.
        wait_for(lambda: open_files() <= before)
        assert not running.is_alive


def test_nothing_is_left_undone_when_it_ends() -> None:
    """A task that waits for a silent cluster takes several steps to end, as asyncio's own
    connecting to several addresses does."""
    begun, ended = list[None](), list[None]()
    loops: list[asyncio.AbstractEventLoop] = []

    async def end_slowly() -> None:
        try:
            begun.append(None)
            await asyncio.Event().wait()
        finally:
            for _ in range(STEPS):
                await asyncio.sleep(0)
            ended.append(None)

    class Noting(Listeners):
        """Its sockets are asked for in the event loop."""

        def copies(self, node_id: int, port: int) -> list[socket.socket]:
            loops.append(asyncio.get_running_loop())
            return super().copies(node_id, port)

    listeners = Noting(LOOPBACK, shares_ports=False)
    with Hanging() as silent, gateway(silent.port, listeners=listeners):
        running_loop = loops[0]
        asyncio.run_coroutine_threadsafe(end_slowly(), running_loop)
        wait_for(lambda: silent.open > 0 and bool(begun))
        tasks = asyncio.all_tasks(running_loop)
    assert ended
    assert all(task.done() for task in tasks)


def test_work_of_every_second_goes_on_after_a_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a renewed certificate would never be read again."""
    looks = list[None]()

    def look() -> None:
        looks.append(None)
        raise RuntimeError("once")

    monkeypatch.setattr(loop, "SECOND", 0.01)
    with cluster(tmp_path, "t") as (_, port), gateway(port) as running:
        monkeypatch.setattr(running.certificates, "read_if_changed", look)
        wait_for(lambda: len(looks) > 2)
    assert "a defect in the work that is done each second" in caplog.text


def test_the_cluster_is_asked_for_its_brokers_again_after_a_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = list[None]()

    def set_brokers(_: object) -> None:
        asked.append(None)
        raise RuntimeError("once")

    with (
        cluster(tmp_path, "t") as (_, port),
        gateway(port, refresh_seconds=0.01) as running,
    ):
        monkeypatch.setattr(running.topology, "set_brokers", set_brokers)
        wait_for(lambda: len(asked) > 2)
    assert "a defect in asking the cluster" in caplog.text
