"""A connection of the gateway holds no buffer while no data has arrived."""

import asyncio
import socket

import pytest

from downconvert.gateway.network.sockets.deadline import Parked
from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.streams import BUFFER_SIZE, KEPT, WRITE_MAX, Stream

from .connected import with_stream

PIECE = 4096


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_consumed_bytes_are_not_overwritten_while_a_view_of_them_exists(size: int) -> None:
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


def test_bytes_beyond_a_buffer_wait_and_come_in_order() -> None:
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


@pytest.mark.parametrize("size", [BUFFER_SIZE - 1, BUFFER_SIZE, BUFFER_SIZE + 1, 5 * BUFFER_SIZE])
def test_a_full_buffer_waits_for_its_reader_for_as_long_as_that_takes(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)

    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        sending = loop.create_task(loop.sock_sendall(theirs, data[:size]))
        got = b""
        while len(got) < size:
            for _ in range(10):
                await asyncio.sleep(0.001)
            await stream.ensure(min(BUFFER_SIZE, size - len(got)))
            piece = bytes(stream.available)
            assert len(piece) == min(BUFFER_SIZE, size - len(got))
            got += piece
            stream.consume(len(piece))
        await sending
        assert got == data[:size]

    with_stream(use)


@pytest.mark.parametrize("rest", [1, 100, PIECE, BUFFER_SIZE - 1])
def test_a_full_buffer_that_is_taken_in_part_has_room_for_more(rest: int) -> None:
    """The callback takes no more until more has arrived, and no task waits for it."""

    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.sendall(bytes(BUFFER_SIZE) + b"more")
        await stream.ensure(BUFFER_SIZE)
        lengths: list[int] = []

        def take(data: memoryview) -> int:
            lengths.append(len(data))
            return 0 if len(lengths) > 1 else len(data) - rest

        stream.on_arrival = take
        stream.offer_again()
        await asyncio.wait_for(_arrivals(lengths, 2), 10)
        assert lengths[0] == BUFFER_SIZE
        assert rest < lengths[1] <= rest + 4

    with_stream(use)


async def _arrivals(lengths: list[int], count: int) -> None:
    while len(lengths) < count:
        await asyncio.sleep(0.001)


def test_a_writer_that_waited_for_an_empty_queue_may_queue_as_much_as_before() -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()

        def fill() -> int:
            size = 0
            while not stream.transport.get_write_buffer_size():
                size += stream.send(bytes(PIECE))
            return size

        left = fill()
        assert stream.is_writable
        flushing = loop.create_task(stream.flushed())
        while left:
            left -= len(await loop.sock_recv(theirs, left))
        await flushing
        assert not stream.transport.get_write_buffer_size()
        fill()
        assert stream.is_writable
        stream.transport.write(bytes(WRITE_MAX))
        assert not stream.is_writable
        stream.abort()

    with_stream(use)


@pytest.mark.parametrize("way", ["resumed", "lent", "offered"])
def test_a_full_buffer_is_not_read_into_whatever_resumes_it(way: str) -> None:
    """A read into no room would look like the end of the connection."""
    data = bytes(range(256)) * (2 * BUFFER_SIZE // 256)

    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.setblocking(False)
        sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(theirs, data))
        await stream.ensure(BUFFER_SIZE)
        stream.on_arrival = lambda _: 0
        if way == "resumed":
            stream.resume_reading()
        elif way == "lent":
            copy, head = stream.lend(0)
            assert not head
            stream.take_back(copy)
        else:
            stream.offer_again()
        await asyncio.sleep(0.02)
        assert not stream.has_ended
        assert stream.available == data[:BUFFER_SIZE]
        stream.on_arrival = None
        got = bytearray()
        while len(got) < len(data):
            await stream.ensure(1)
            got += stream.available
            stream.consume(len(stream.available))
        await sending
        assert got == data

    with_stream(use)


def test_bytes_written_past_the_transport_follow_those_sent_before() -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        theirs.setblocking(False)
        loop, sent = asyncio.get_running_loop(), 0
        while not stream.transport.get_write_buffer_size():
            sent += stream.send(bytes(PIECE))
        directing = asyncio.create_task(stream.direct())
        await asyncio.sleep(0.01)
        assert not directing.done(), "the queue is not empty"
        got = bytearray()
        while len(got) < sent:
            got += await loop.sock_recv(theirs, sent)
        copy = await directing
        assert copy is not None
        with copy:
            copy.send(b"after")
            got += await loop.sock_recv(theirs, 5)
        assert got == bytes(sent) + b"after"

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


@pytest.mark.parametrize("taken", [0, KEPT])
def test_a_reader_is_woken_for_bytes_unless_they_are_offered_again(taken: int) -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        offered: list[bytes] = []

        def on_arrival(data: memoryview) -> int:
            offered.append(bytes(data))
            return taken

        stream.on_arrival = on_arrival
        woken: list[bool] = []
        stream.park(Parked(lambda: woken.append(True)), asyncio.get_running_loop().time() + 60)
        for count in (1, 2):
            theirs.sendall(b"a")
            while len(offered) < count:
                await asyncio.sleep(0.001)
        assert (offered, bytes(stream.available)) == ([b"a", b"aa"], b"aa")
        assert woken == [True] * (taken == 0)
        stream.offer_again()
        assert (offered[-1], bytes(stream.available)) == (b"aa", b"aa")
        stream.on_arrival = len
        stream.offer_again()
        assert not stream.available

    with_stream(use)
