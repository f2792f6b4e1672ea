"""What a connection of the gateway holds of what has arrived: nothing, while nothing has."""

import asyncio
import socket

import pytest

from downconvert.gateway.network.ended import ConnectionEndedError
from downconvert.gateway.network.streams import BUFFER_SIZE, Stream

from .connected import with_stream


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_buffer_is_there_while_it_holds_something(size: int) -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        for piece in (b"a" * size, b"b" * size):
            assert not stream.available
            theirs.sendall(piece + b"rest")
            await stream.ensure(size + 4)
            first = stream.available[:size]
            stream.consume(size)
            assert bytes(stream.available) == b"rest"
            stream.consume(4)
            assert not stream.available
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
        assert not stream.available

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
