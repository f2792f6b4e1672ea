"""Connections to hosts with one address and with several."""

import asyncio
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from downconvert.gateway.network.sockets import connecting
from downconvert.gateway.network.sockets.connecting import connect
from downconvert.gateway.network.sockets.event_loop import EventLoop
from downconvert.gateway.network.sockets.streams import PIECE_SIZE
from tests.ports import LOOPBACK, free_ports

from .connected import in_loop

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the host has one loopback address")
FULL, SECOND = "127.0.0.2", "127.0.0.3"
V4, V6 = socket.AF_INET, socket.AF_INET6
LONG = 60.0  # seconds


@contextmanager
def listening(*hosts: str) -> Iterator[tuple[int, dict[str, socket.socket]]]:
    """Listeners at one port of these addresses. At FULL, none of them takes a connection."""
    with ExitStack() as stack:
        opened: dict[str, socket.socket] = {}
        (port,) = free_ports(1)  # a port of the system's choice is free at one address only
        for host in hosts:
            one = opened[host] = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host, port))
            one.listen(0 if host == FULL else 8)
            for _ in range(4 if host == FULL else 0):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((host, port))
        yield port, opened


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the host `many.test`."""
    found: list[str] = []

    async def getaddrinfo(_: EventLoop, host: str, port: int, **__: object) -> list[Any]:
        assert host == "many.test"
        return [(V6 if ":" in one else V4, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr(EventLoop, "getaddrinfo", getaddrinfo)
    return found


def test_a_response_of_a_broker_waits_whole_up_to_the_size_of_a_piece() -> None:
    """Such a response is converted in one call, so it must be there at once."""

    async def use(port: int, listener: socket.socket) -> int:
        async with asyncio.timeout(20):
            stream = await connect(LOOPBACK, port, None)
            broker, _ = listener.accept()
            with broker:
                broker.setblocking(False)
                loop = asyncio.get_running_loop()
                sending = loop.create_task(loop.sock_sendall(broker, bytes(PIECE_SIZE)))
                while len(stream.available) < PIECE_SIZE:
                    await asyncio.sleep(0.001)
                await sending
            stream.abort()
        return len(stream.available)

    with listening(LOOPBACK) as (port, opened):
        assert in_loop(use(port, opened[LOOPBACK])) == PIECE_SIZE


async def reached(port: int, host: str = "many.test") -> str:
    """The address that the connection goes to. No attempt is left."""
    async with asyncio.timeout(20):
        stream = await connect(host, port, None)
        found: str = stream.transport.get_extra_info("socket").getpeername()[0]
        stream.abort()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.001)
    return found


def test_a_hosts_second_address_is_tried_while_the_first_one_says_nothing(
    hosts: list[str],
) -> None:
    hosts += [FULL, LOOPBACK]
    with listening(*hosts) as (port, _):
        assert in_loop(reached(port)) == LOOPBACK


def test_the_next_address_is_tried_at_once_after_one_that_refuses(
    hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "HAPPY_EYEBALLS", LONG)
    hosts += [SECOND, LOOPBACK, FULL]
    with listening(FULL, LOOPBACK) as (port, _):
        assert in_loop(reached(port)) == LOOPBACK


def test_one_connection_is_made_even_if_several_addresses_answer_at_once(
    hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are closed."""
    monkeypatch.setattr(connecting, "HAPPY_EYEBALLS", 0.0)
    hosts += [LOOPBACK, SECOND]

    async def run(port: int, opened: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        stream = await connect("many.test", port, None)
        stream.abort()
        for one in opened:
            one.setblocking(False)
            try:
                near, _ = one.accept()
            except BlockingIOError:  # it was not tried
                continue
            with near:
                near.setblocking(False)
                async with asyncio.timeout(10):
                    assert not await loop.sock_recv(near, 1), "it is closed"

    with listening(*hosts) as (port, opened):
        in_loop(run(port, list(opened.values())))


def test_a_host_is_refused_for_all_reasons_of_its_addresses(hosts: list[str]) -> None:
    hosts += [LOOPBACK, SECOND]
    (port,) = free_ports(1)
    with pytest.raises(ConnectionRefusedError):
        in_loop(reached(port))
    hosts += ["255.255.255.255"]
    with pytest.raises(OSError, match=r"^Connection refused, (Network|Permission)"):
        in_loop(reached(port))


def test_attempts_end_with_the_callers_time(hosts: list[str]) -> None:
    hosts += [FULL, FULL]

    async def run(port: int) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connect("many.test", port, None)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.001)

    with listening(FULL) as (port, _):
        in_loop(run(port))


def test_families_are_tried_in_turn(hosts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """If a host's IPv6 does not answer, not all of its IPv6 addresses are tried first."""
    hosts += ["::1", "::2", "::3", LOOPBACK, SECOND]
    tried: list[str] = []

    async def refused(_: EventLoop, __: socket.socket, address: tuple[str, int]) -> None:
        tried.append(address[0])
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(EventLoop, "sock_connect", refused)
    with pytest.raises(ConnectionRefusedError):
        in_loop(reached(1))
    assert tried == ["::1", LOOPBACK, "::2", SECOND, "::3"]


def test_an_address_is_not_looked_up(hosts: list[str]) -> None:
    with listening(SECOND) as (port, _):
        assert in_loop(reached(port, SECOND)) == SECOND
    assert not hosts
