"""A client that reads slowly is not silent, however it is written to."""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from downconvert.gateway.network.sockets.splicing import forward
from downconvert.gateway.network.sockets.streams import Stream
from downconvert.gateway.network.sockets.tcp import last_bytes, unsent
from tests.waiting import wait_for

from .connected import attached, in_loop

SEND_BUFFER = 200 * 1024  # bytes; the system doubles that
PATIENCE = 0.6  # seconds; the reader needs longer than that for a third of the buffer
PIECE, RATE = 1500, 150_000  # bytes that it reads at once, and in a second
SIZE = 2 * SEND_BUFFER + 100_000
Write = Callable[[Stream, Stream, socket.socket], Awaitable[None]]


async def past_the_transport(_: Stream, client: Stream, __: socket.socket) -> None:
    direct = await client.direct()
    assert direct is not None
    left = memoryview(bytes(SIZE))
    with direct:
        while left:
            try:
                left = left[direct.send(left) :]
            except BlockingIOError:
                await client.ready(direct, to_write=True)


async def through_the_transport(_: Stream, client: Stream, __: socket.socket) -> None:
    client.transport.write(bytes(SIZE))
    await client.flushed()


async def spliced(broker: Stream, client: Stream, behind: socket.socket) -> None:
    sending = asyncio.get_running_loop().sock_sendall(behind, bytes(SIZE))
    await asyncio.gather(sending, forward(broker, client, SIZE))


WAYS = [past_the_transport, through_the_transport, spliced]


def pair(receive_buffer: int, send_buffer: int) -> tuple[socket.socket, socket.socket]:
    """One that sends, and one that receives, over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.socket()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        near.connect(listener.getsockname())
        far, _ = listener.accept()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket, socket.socket, socket.socket]]:
    """Towards the client, the client, towards the cluster, the cluster."""
    behind, upstream = pair(1 << 20, 1 << 20)
    near, far = pair(16_384, SEND_BUFFER)
    yield near, far, upstream, behind
    for one in (near, far, upstream, behind):
        one.close()


def run(sockets: tuple[socket.socket, ...], way: Write, *, pauses_after: int) -> int:
    """Writes by one of the ways. The client stops reading after so many bytes. How many it got."""
    near, far, upstream, behind = sockets
    is_over = threading.Event()

    got = 0

    def read() -> None:
        nonlocal got
        far.setblocking(True)
        far.settimeout(5)
        began = time.monotonic()
        with suppress(OSError):
            while not is_over.is_set() and got < pauses_after and (piece := far.recv(PIECE)):
                got += len(piece)
                # Not a pause for each piece: on a busy machine, pauses are longer.
                time.sleep(max(0.0, began + got / RATE - time.monotonic()))
        is_over.wait(10)

    async def write() -> None:
        client = attached(Stream("the client", PATIENCE), near)
        broker = attached(Stream("the broker", 60.0), upstream)
        try:
            await way(broker, client, behind)
        finally:
            client.abort()
            broker.abort()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        in_loop(write())
    finally:
        is_over.set()
        reader.join()
    return got


@pytest.mark.parametrize("way", WAYS)
def test_bytes_that_a_slow_reader_takes_are_a_sign_of_life(
    sockets: tuple[socket.socket, ...], way: Write
) -> None:
    assert 0 < run(sockets, way, pauses_after=SIZE) <= SIZE


@pytest.mark.parametrize("way", WAYS)
def test_a_reader_that_takes_nothing_more_is_silent(
    sockets: tuple[socket.socket, ...], way: Write
) -> None:
    with pytest.raises(TimeoutError, match="the client has neither sent nor taken a byte"):
        run(sockets, way, pauses_after=20_000)


def test_nothing_is_known_of_a_closed_file() -> None:
    near, far = socket.socketpair()
    number = near.fileno()
    near.send(b"some")
    assert unsent(number) > 0
    far.recv(4)
    assert unsent(number) == 0
    near.close()
    far.close()
    assert unsent(number) == 0


@pytest.mark.parametrize("sent", [0, 1_000])
def test_the_last_bytes_of_a_side_are_known_once_it_sends_no_more(sent: int) -> None:
    near, far = pair(1 << 16, 1 << 16)
    with near, far:
        far.sendall(bytes(sent))
        assert last_bytes(near.fileno()) is None
        far.shutdown(socket.SHUT_WR)
        wait_for(lambda: last_bytes(near.fileno()) == sent)
        near.recv(400)
        assert last_bytes(near.fileno()) == max(0, sent - 400)
