"""What a connection of the gateway holds of what has arrived: nothing, while nothing has."""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from threading import Thread
from time import sleep

import pytest

from downconvert.gateway import event_loop
from downconvert.gateway.ended import ConnectionEndedError
from downconvert.gateway.event_loop import EventLoop
from downconvert.gateway.streams import BUFFER_SIZE, Stream

Use = Callable[[Stream, socket.socket], Awaitable[None]]


def with_stream(use: Use) -> None:
    """A stream, and the other side of its connection."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            loop = asyncio.get_running_loop()
            stream = Stream()
            await loop.connect_accepted_socket(lambda: stream, ours)
            try:
                await use(stream, theirs)
            finally:
                stream.close()

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(run())


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_buffer_is_there_while_it_holds_something(size: int) -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        for piece in (b"a" * size, b"b" * size):
            assert not stream._view
            theirs.sendall(piece + b"rest")
            await stream.ensure(size + 4)
            first = stream.available[:size]
            stream.consume(size)
            assert bytes(stream.available) == b"rest"
            stream.consume(4)
            assert not stream._view
            assert first == piece, "and who still looks at it is not overwritten"

    with_stream(use)


def test_what_is_more_than_a_buffer_waits_and_comes_in_its_order() -> None:
    data = bytes(range(256)) * 256  # four buffers

    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        sending = loop.create_task(loop.sock_sendall(theirs, data))
        got = b""
        while len(got) < len(data):
            await stream.ensure(1)
            assert len(stream.available) <= BUFFER_SIZE
            size = min(len(stream.available), 10_000)
            got += bytes(stream.available[:size])
            stream.consume(size)
        await sending
        assert got == data
        assert not stream._view

    with_stream(use)


def test_an_end_is_an_end_with_and_without_a_buffer() -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.sendall(b"half")
        await stream.ensure(4)
        theirs.close()
        with pytest.raises(ConnectionEndedError):
            await stream.ensure(5)
        assert bytes(stream.available) == b"half"

    with_stream(use)


def test_what_comes_while_nobody_else_has_anything_to_do_is_poured_in_one_call_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other side is a thread, and slow."""
    monkeypatch.setattr(event_loop, "WAIT_MS", 60_000)
    pieces = [bytes([number]) * 5_000 for number in range(6)]
    calls = Counter[str]()
    updated = Stream.buffer_updated

    def counted(self: Stream, nbytes: int) -> None:
        calls["updated"] += 1
        updated(self, nbytes)

    monkeypatch.setattr(Stream, "buffer_updated", counted)
    got = bytearray()

    async def use(stream: Stream, theirs: socket.socket) -> None:
        def send() -> None:
            for piece in pieces:
                sleep(0.01)
                theirs.sendall(piece)
            theirs.sendall(b"of the next")

        sending = Thread(target=send)
        sending.start()
        size = await stream.pour(got.__iadd__, sum(map(len, pieces)))
        assert size == len(got)
        sending.join()
        await stream.ensure(len(b"of the next"))
        assert bytes(stream.available) == b"of the next"

    with_stream(use)
    assert got == b"".join(pieces)
    assert calls["updated"] == 2


def test_an_end_in_the_midst_of_pouring_is_an_end() -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.sendall(b"half")
        asyncio.get_running_loop().call_later(0.01, theirs.close)
        assert await stream.pour(lambda _: None, 1000) == len(b"half")
        with pytest.raises(ConnectionEndedError):
            await stream.pour(lambda _: None, 1000)

    with_stream(use)
