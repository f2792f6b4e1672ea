"""A plain socket in the gateway's event loop: order, back-pressure, and how it ends."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import pytest

from downconvert.gateway.network.sockets import event_loop
from downconvert.gateway.network.sockets.event_loop import EventLoop
from downconvert.gateway.network.sockets.socket_transport import SocketTransport

from .connected import in_loop

HIGH = 10_000  # bytes
TURNS = 20


class Told(asyncio.BufferedProtocol):
    """A protocol that notes its calls."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.calls: list[str] = []
        self.on_received: Callable[[], None] = lambda: None
        self._buffer = bytearray(1_000)

    def connection_made(self, _: asyncio.BaseTransport) -> None:
        self.calls.append("made")

    def get_buffer(self, _: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.received += self._buffer[:size]
        self.on_received()

    def eof_received(self) -> bool:
        self.calls.append("end")
        return False

    def connection_lost(self, _: Exception | None) -> None:
        self.calls.append("lost")

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


@pytest.fixture(autouse=True, params=[True, False], ids=["epoll", "as on other systems"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(event_loop, "HAS_EPOLL", False)


Use: TypeAlias = Callable[[SocketTransport, Told, socket.socket], Awaitable[None]]


def with_transport(use: Use) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, EventLoop)
        ours, theirs = socket.socketpair()
        for one in (ours, theirs):
            one.setblocking(False)
        told = Told()
        transport = SocketTransport(loop, ours, told)
        transport.set_write_buffer_limits(HIGH)
        with theirs:
            await use(transport, told, theirs)
            transport.abort()
            await turns()

    in_loop(run())


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def read(theirs: socket.socket) -> bytes:
    """All bytes that have arrived."""
    found = bytearray()
    with suppress(BlockingIOError):
        while piece := theirs.recv(1 << 20):
            found += piece
    return bytes(found)


def fill(transport: SocketTransport) -> bytes:
    """Writes numbered pieces until the system takes no more. Each piece is overwritten
    afterwards."""
    written, piece = bytearray(), bytearray(4_000)
    number = 0
    while not transport.get_write_buffer_size():
        piece[:] = number.to_bytes(4) * 1_000
        transport.write(memoryview(piece))
        written += piece
        piece[:] = bytes(4_000)
        number += 1
    return bytes(written)


def test_queued_bytes_come_in_order_even_if_the_written_buffer_is_used_again() -> None:
    async def use(transport: SocketTransport, _: Told, theirs: socket.socket) -> None:
        written, got = fill(transport), b""
        transport.write(b"last")
        while len(got) < len(written) + 4:
            got += read(theirs)
            await asyncio.sleep(0)
        assert got == written + b"last"
        assert not transport.get_write_buffer_size()

    with_transport(use)


def test_the_writer_pauses_above_the_limit_and_resumes_at_a_quarter_of_it() -> None:
    async def use(transport: SocketTransport, told: Told, theirs: socket.socket) -> None:
        fill(transport)
        transport.write(bytes(HIGH - transport.get_write_buffer_size()))
        assert told.calls == ["made"]
        transport.write(b"x")
        transport.write(b"y")
        assert told.calls == ["made", "pause"]
        while told.calls[-1] == "pause":
            assert transport.get_write_buffer_size() > HIGH // 4
            theirs.recv(100)
            await asyncio.sleep(0)
        assert told.calls == ["made", "pause", "resume"]
        assert transport.get_write_buffer_size() <= HIGH // 4

    with_transport(use)


@pytest.mark.parametrize("ends_first", ["ours", "theirs"])
def test_queued_bytes_are_sent_before_the_end(ends_first: str) -> None:
    async def use(transport: SocketTransport, told: Told, theirs: socket.socket) -> None:
        written, got = fill(transport), b""
        if ends_first == "ours":
            transport.close()
        else:
            theirs.shutdown(socket.SHUT_WR)
        await turns()
        assert transport.is_closing()
        assert "lost" not in told.calls
        while "lost" not in told.calls:
            got += read(theirs)
            await asyncio.sleep(0)
        assert got + read(theirs) == written
        assert theirs.recv(1) == b"", "the socket is closed"

    with_transport(use)


def test_nothing_is_read_after_the_end_while_queued_bytes_are_sent() -> None:
    async def use(transport: SocketTransport, told: Told, theirs: socket.socket) -> None:
        fill(transport)
        transport.close()
        theirs.send(b"some")
        await turns()
        assert not told.received

    with_transport(use)


def test_an_aborted_connection_holds_no_queued_bytes() -> None:
    async def use(transport: SocketTransport, told: Told, _: socket.socket) -> None:
        fill(transport)
        transport.abort()
        assert not transport.get_write_buffer_size()
        await turns()
        assert told.calls == ["made", "lost"]

    with_transport(use)


def test_a_writer_that_did_not_pause_is_not_resumed() -> None:
    async def use(transport: SocketTransport, told: Told, theirs: socket.socket) -> None:
        transport.set_write_buffer_limits(1 << 20)
        fill(transport)
        while transport.get_write_buffer_size():
            read(theirs)
            await asyncio.sleep(0)
        assert told.calls == ["made"]

    with_transport(use)


def test_an_end_is_reported_once() -> None:
    async def use(transport: SocketTransport, told: Told, _: socket.socket) -> None:
        transport.close()
        transport.abort()
        transport.close()
        assert told.calls == ["made"], "not within the call"
        await turns()
        transport.abort()
        transport.write(b"more")
        await turns()
        assert told.calls == ["made", "lost"]

    with_transport(use)


@pytest.mark.parametrize("writes", [False, True])
def test_a_connection_that_breaks_is_lost(writes: bool) -> None:
    async def use(transport: SocketTransport, told: Told, theirs: socket.socket) -> None:
        if writes:
            transport.pause_reading()
        theirs.close()
        if writes:
            transport.write(b"x")
            assert transport.is_closing()
        await turns()
        assert told.calls[-1] == "lost"

    with_transport(use)


def test_nothing_is_read_while_reading_is_paused() -> None:
    async def use(transport: SocketTransport, told: Told, theirs: socket.socket) -> None:
        transport.pause_reading()
        transport.pause_reading()
        theirs.send(b"some")
        written = fill(transport)  # the socket is watched again
        got = b""
        while len(got) < len(written):
            got += read(theirs)
            await asyncio.sleep(0)
        assert not told.received
        transport.resume_reading()
        await turns()
        assert told.received == b"some"
        transport.close()
        transport.resume_reading()
        theirs.send(b"more")
        await turns()
        assert told.received == b"some"

    with_transport(use)


def test_a_defect_ends_its_connection_only() -> None:
    reports: list[dict[str, Any]] = []

    async def use(_: SocketTransport, told: Told, theirs: socket.socket) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

        def fail() -> None:
            raise ZeroDivisionError

        told.on_received = fail
        theirs.send(b"some")
        await turns()
        assert told.calls == ["made", "lost"]
        assert [type(report["exception"]) for report in reports] == [ZeroDivisionError]

    with_transport(use)


def test_a_socket_that_another_one_closes_in_the_same_turn_is_not_read() -> None:
    async def use(transport: SocketTransport, told: Told, theirs: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, EventLoop)
        ours, others = socket.socketpair()
        other = Told()
        second = SocketTransport(loop, ours, other)
        told.on_received, other.on_received = second.abort, transport.abort
        with others:
            theirs.send(b"some")
            others.send(b"some")
            await turns()
        assert sorted((told.received, other.received)) == [b"", b"some"]

    with_transport(use)
