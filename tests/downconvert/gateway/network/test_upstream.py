"""A cluster some of whose brokers accept connections and say nothing. Ends are generous: what is
tested is that something happens at all, and what it says."""

import asyncio
import logging
import re
import socket
from collections.abc import Iterator

import pytest

from downconvert.broker import Broker
from downconvert.gateway import topology
from downconvert.gateway.config import Limits
from downconvert.gateway.figures import End
from downconvert.gateway.network import upstream
from downconvert.gateway.network.sockets.connecting import connect
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.hanging import Hanging
from tests.downconvert.gateway.network.sockets.connected import in_loop
from tests.downconvert.gateway.serving import LOOPBACK, Wire, gateway
from tests.downconvert.gateway.talk import fetch_body
from tests.waiting import wait_for

FOREVER = 3600.0  # seconds
ALL = Message(topics=None)
MANY = 20
OPTIONS = ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE))


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The gateway's log lines."""
    log, handler = logging.getLogger("downconvert.gateway"), _Lines()
    log.addHandler(handler)
    yield handler.lines
    log.removeHandler(handler)


def test_a_silent_bootstrap_server_does_not_hide_the_next_one(
    behind: tuple[Broker, int], lines: list[str]
) -> None:
    limits = Limits(connect_timeout=0.5, request_timeout=FOREVER)
    with Hanging() as silent, gateway(silent.port, behind[1], limits=limits) as running:
        for _ in range(3):
            with Wire(running.address) as client:
                assert client.ask(ApiKey.Metadata, 1, ALL).topics
        line = f"broker {LOOPBACK}:{silent.port}: it has not answered in 0.5 s"
        wait_for(lambda: any(line in one for one in lines))
        # Later clients do not wait for it again.
        tried = silent.accepted
        with Wire(running.address) as client:
            assert client.ask(ApiKey.Metadata, 1, ALL).topics
        assert silent.accepted == tried


def test_without_a_response_the_clients_connection_ends_and_the_log_names_the_broker(
    lines: list[str],
) -> None:
    with (
        Hanging() as silent,
        gateway(silent.port, limits=Limits(connect_timeout=0.3)) as running,
        Wire(running.address) as client,
    ):
        client.send(ApiKey.Metadata, 1, ALL)
        assert client.has_ended()
        wait_for(lambda: any(one.startswith("client ") for one in lines))
    (line,) = {one for one in lines if one.startswith("client ")}
    assert line.startswith(
        f"client {LOOPBACK}: Metadata v1 of client id 'test': "
        f"broker {LOOPBACK}:{silent.port}: it has not answered in 0.3 s [broker_failed after"
    )


@pytest.mark.parametrize("version", [0, 1, 12])
@pytest.mark.parametrize("answered", [0, 4])
def test_a_broker_that_hangs_in_a_request_is_given_up(
    behind: tuple[Broker, int], lines: list[str], version: int, answered: int
) -> None:
    """As it is asked by the gateway, or by what is passed on; also where it begins to answer."""
    with (
        Hanging(behind[1]) as between,
        gateway(between.port, limits=Limits(request_timeout=2.0)) as running,
        Wire(running.address) as client,
    ):
        assert client.ask(ApiKey.Metadata, 1, ALL).topics
        between.answered = answered
        client.send(ApiKey.ListOffsets, version % 8, Message(replica_id=-1, topics=[]))
        assert client.has_ended()
        name = f"ListOffsets v{version % 8} of client id 'test'"
        what = "(has not answered|has neither sent nor taken a byte) in"
        line = f"client {LOOPBACK}: {name}: broker {LOOPBACK}:{between.port} {what}"
        wait_for(lambda: any(re.match(line, one) for one in lines))


def test_a_broker_that_hangs_in_a_request_is_tried_last_by_the_next_clients(
    behind: tuple[Broker, int], lines: list[str]
) -> None:
    limits = Limits(request_timeout=2.0, idle_timeout=FOREVER)
    with (
        Hanging(behind[1]) as between,
        gateway(between.port, behind[1], limits=limits, refresh_seconds=FOREVER) as running,
    ):
        wait_for(lambda: not running.unready())
        with Wire(running.address) as client:
            assert client.ask(ApiKey.Metadata, 1, ALL).topics
            between.answered = 0
            client.send(ApiKey.ListGroups, 0, ALL)
            assert client.has_ended()
        reason = f"broker {LOOPBACK}:{between.port}: it has not answered in 2 s"
        wait_for(lambda: f"{reason}; others are tried before it" in lines)
        tried = between.accepted
        with Wire(running.address) as client:
            assert client.ask(ApiKey.Metadata, 1, ALL).topics
        assert between.accepted == tried


def test_clients_that_go_leave_nothing_behind_at_a_broker_that_hangs(
    behind: tuple[Broker, int],
) -> None:
    limits = Limits(request_timeout=FOREVER, idle_timeout=FOREVER)
    with (
        Hanging(behind[1]) as between,
        gateway(between.port, limits=limits) as running,
    ):
        wait_for(lambda: running.cluster_failure is None)
        wait_for(lambda: between.open == 0)  # what the gateway itself asked has been answered
        clients = [Wire(running.address) for _ in range(MANY)]
        for client in clients:
            assert client.ask(ApiKey.Metadata, 1, ALL).topics
        between.hangs = True
        for number, client in enumerate(clients):
            client.send(*((ApiKey.Metadata, 1, ALL) if number % 2 else (ApiKey.ListGroups, 0, ALL)))
        assert between.open == MANY
        for client in clients:
            client.socket.close()
        wait_for(lambda: between.open == 0)
        wait_for(lambda: len(running.places) == 0)


def test_an_idle_client_notices_that_its_broker_has_gone(
    behind: tuple[Broker, int], lines: list[str]
) -> None:
    with (
        Hanging(behind[1]) as between,
        gateway(between.port) as running,
        Wire(running.address) as client,
    ):
        assert client.ask(ApiKey.Metadata, 1, ALL).topics
        between.drop()
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.CLUSTER] == 1)
    line = f"broker {LOOPBACK}:{between.port} closed the connection [broker_failed after 1 requests"
    assert any(line in one for one in lines)


def test_clients_that_connect_at_once_ask_the_broker_once(
    behind: tuple[Broker, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "RECENT", FOREVER)
    with Hanging(behind[1]) as between, gateway(between.port) as running:
        with Wire(running.address) as client:
            first = client.ask(ApiKey.ApiVersions, 0, Message())
        tried = between.accepted
        for _ in range(MANY):
            with Wire(running.address) as client:
                assert client.ask(ApiKey.ApiVersions, 0, Message()) == first
        assert between.accepted == tried
        with Wire(running.address) as client:
            assert client.ask(ApiKey.ApiVersions, 0, Message()) == first
            assert client.ask(ApiKey.Metadata, 1, ALL).topics
        assert between.accepted == tried + 1


def test_a_broker_that_serves_other_versions_than_a_moment_ago_ends_the_connection(
    behind: tuple[Broker, int], monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    monkeypatch.setattr(topology, "RECENT", FOREVER)
    broker, port = behind
    with gateway(port) as running:
        with Wire(running.address) as client:
            client.ask(ApiKey.ApiVersions, 0, Message())
        with Wire(running.address) as client:
            client.ask(ApiKey.ApiVersions, 0, Message())
            broker.apis = {key: api for key, api in broker.apis.items() if key != ApiKey.ListGroups}
            client.send(ApiKey.Metadata, 1, ALL)
            assert client.has_ended()
    assert any("other versions than a moment ago" in line for line in lines)


def test_a_response_that_stops_in_its_midst_is_given_up() -> None:
    async def read(port: int) -> None:
        stream = await connect(LOOPBACK, port, None, patience=0.3)
        await stream.ensure(4)
        stream.consume(4)
        try:
            await stream.receive_into(lambda _piece: None, 1000)
        finally:
            stream.abort()

    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection((LOOPBACK, port))  # takes the first place in the queue
        client.close()
        listener.accept()[0].close()

        async def both() -> None:
            reading = asyncio.create_task(read(port))
            near, _ = await asyncio.to_thread(listener.accept)
            near.sendall(bytes(4) + b"a few")
            with near, pytest.raises(TimeoutError, match=f"broker {LOOPBACK}:{port} has neither"):
                await reading

        in_loop(both())


def test_connections_are_kept_alive_by_the_system_and_small_requests_are_sent_at_once() -> None:
    async def options(port: int) -> list[int]:
        stream = await connect(LOOPBACK, port, None)
        raw = stream.transport.get_extra_info("socket")
        found = [raw.getsockopt(*option) for option in OPTIONS]
        stream.abort()
        return found

    with socket.create_server((LOOPBACK, 0)) as listener:
        assert all(in_loop(options(listener.getsockname()[1])))


def test_the_requests_of_a_connection_are_never_too_many_to_be_numbered(
    behind: tuple[Broker, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number has 32 bits. A client that polls a thousand times a second needs a month."""
    monkeypatch.setattr(upstream, "CORRELATION_MAX", 3)
    made = upstream.Upstream.next_id
    numbers: list[int] = []

    def noted(self: upstream.Upstream) -> int:
        numbers.append(made(self))
        return numbers[-1]

    monkeypatch.setattr(upstream.Upstream, "next_id", noted)
    with gateway(behind[1], refresh_seconds=FOREVER) as running:
        wait_for(lambda: len(numbers) == 2)  # its own connection's
        with Wire(running.address) as client:
            for _ in range(7):
                assert client.ask(ApiKey.Fetch, 1, fetch_body(0)).responses
    assert numbers[2:] == [1, 2, 3, 1, 2, 3, 1, 2]
