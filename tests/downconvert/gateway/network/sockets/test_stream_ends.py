"""The other side closes, or is given up, while written bytes wait for it."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from downconvert.gateway.network.sockets import streams
from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.streams import WRITE_MAX, Stream
from downconvert.gateway.network.sockets.tcp import unsent
from tests.certificates import self_signed
from tests.ports import LOOPBACK

from .connected import in_loop, with_stream

SOON = 0.05  # seconds
PIECE = 4000
BUFFER = 65_536
CALLS = 2  # of `on_end`: at the end of what is received, and when the connection is over


class Ends:
    """A stream whose end is awaited."""

    def __init__(self, stream: Stream) -> None:
        self._calls = 0
        self._over = asyncio.get_running_loop().create_future()
        stream.on_end = self._end

    def _end(self) -> None:
        self._calls += 1
        if self._calls == CALLS:
            self._over.set_result(None)

    async def over(self) -> None:
        await asyncio.wait_for(self._over, 10)


@contextmanager
def linger(seconds: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "LINGER", seconds)
        yield


async def fill(stream: Stream) -> None:
    """Sends as much as the system takes, and a little more."""
    file = stream.transport.get_extra_info("socket").fileno()
    sizes = [-1, 0]
    while len(set(sizes[-3:])) > 1:
        stream.send(bytes(PIECE))
        await asyncio.sleep(0.001)
        sizes.append(unsent(file))


def test_a_writer_learns_of_the_end_of_a_side_that_takes_nothing() -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        while stream.is_writable:
            stream.send(bytes(WRITE_MAX))
        writing = asyncio.create_task(stream.drain())
        await asyncio.sleep(0)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionEndedError):
            await asyncio.wait_for(writing, 10)

    with_stream(use)


@pytest.mark.parametrize("to_write", [True, False])
def test_a_wait_beside_the_stream_ends_with_the_connection(to_write: bool) -> None:
    """A thread that writes or reads past the transport waits with a copy of its socket."""

    async def use(stream: Stream, theirs: socket.socket) -> None:
        copy, _ = stream.lend(0)
        with suppress(BlockingIOError):
            while to_write:
                copy.send(bytes(PIECE))
        if to_write:
            stream.take_back(stream.lend(0)[0])  # it is read meanwhile, as a client's is
        waiting = asyncio.create_task(stream.ready(copy, to_write=to_write))
        await asyncio.sleep(0)
        if to_write:
            theirs.shutdown(socket.SHUT_WR)
        else:
            stream.close()
        with pytest.raises(ConnectionEndedError):
            await asyncio.wait_for(waiting, 10)
        copy.close()

    with_stream(use)


def test_a_side_that_takes_nothing_is_given_up_soon_after_the_end() -> None:
    async def use(stream: Stream, theirs: socket.socket) -> None:
        ends = Ends(stream)
        await fill(stream)
        theirs.shutdown(socket.SHUT_WR)
        await stream.more(None)
        stream.close()
        await ends.over()

    with linger(SOON):
        with_stream(use)


@pytest.mark.parametrize("says_so", [True, False], ids=["says so", "only closes"])
def test_a_side_that_takes_nothing_over_tls_is_given_up_soon_after_the_end(
    tmp_path: Path, says_so: bool
) -> None:
    certificate, key = self_signed(tmp_path)
    ours_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours_tls.load_cert_chain(certificate, key)
    theirs_tls = ssl.create_default_context(cafile=certificate)

    async def run() -> None:
        with socket.create_server((LOOPBACK, 0)) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            raw = socket.socket()
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            raw.connect(listening.getsockname())
            ours, _ = listening.accept()
        ours.setblocking(False)
        loop, stream = asyncio.get_running_loop(), Stream()
        wrapping = loop.run_in_executor(
            None, lambda: theirs_tls.wrap_socket(raw, server_hostname="localhost")
        )
        await loop.connect_accepted_socket(lambda: stream, ours, ssl=ours_tls)
        with await wrapping as theirs:
            ends = Ends(stream)
            await fill(stream)
            if says_so:
                theirs.setblocking(False)
                with suppress(ssl.SSLError):
                    theirs.unwrap()
            else:
                socket.socket.shutdown(theirs, socket.SHUT_WR)
            await stream.more(None)
            stream.close()
            await ends.over()

    with linger(SOON):
        in_loop(run())
