"""Requests that are read whole: each up to a limit, and all together up to another."""

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from downconvert.gateway.config import Limits
from downconvert.gateway.network.client_request import PREFIX_SIZE, ClientRequest
from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.streams import Stream
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.request_memory import RequestMemory
from records.units import KiB
from tests.downconvert.broker.asking import frame, parsed
from tests.downconvert.gateway.network.sockets.connected import attached, with_stream
from tests.downconvert.gateway.serving import LENGTH, Wire, cluster, gateway
from tests.downconvert.gateway.talk import message_set, produce_body
from tests.waiting import wait_for

CLIENTS = 6
SIZE = 200 * KiB
MEMORY = 300 * KiB


def test_requests_under_way_take_bounded_memory_and_all_are_answered(tmp_path: Path) -> None:
    data = frame(ApiKey.Produce, 1, produce_body(message_set(0, bytes(SIZE))))
    limits = Limits(requests_memory=MEMORY)
    with cluster(tmp_path, "t") as (_, port), gateway(port, limits=limits) as running:
        memory = running.requests
        with ExitStack() as stack:
            clients = [stack.enter_context(Wire(running.address)) for _ in range(CLIENTS)]
            for client in clients:  # all but its last byte
                client.socket.sendall(LENGTH.pack(len(data)) + data[:-1])
            wait_for(lambda: memory.free <= MEMORY // 2)
            assert MEMORY - memory.free <= MEMORY + SIZE + 64 * KiB
            for client in clients:
                client.socket.sendall(data[-1:])
            for client in clients:
                response = parsed(ApiKey.Produce, 1, client.receive())
                assert response.responses[0].partition_responses[0].error_code == 0
        wait_for(lambda: memory.free == MEMORY)


def test_bytes_of_a_client_that_goes_are_given_back(tmp_path: Path) -> None:
    data = frame(ApiKey.Produce, 1, produce_body(message_set(0, bytes(SIZE))))
    limits = Limits(requests_memory=MEMORY)
    with cluster(tmp_path, "t") as (_, port), gateway(port, limits=limits) as running:
        for _ in range(5):
            with Wire(running.address) as client:
                client.ask(ApiKey.Metadata, 1, Message(topics=None))
                client.socket.sendall(LENGTH.pack(len(data)) + data[:-1])
        wait_for(lambda: len(running.places) == 0)
        assert running.requests.free == MEMORY


# --- one request, over a connection without a gateway


@pytest.mark.parametrize("size", [100, PREFIX_SIZE, PREFIX_SIZE + 1000])
@pytest.mark.parametrize("excess", [0, 1])
def test_a_request_of_exactly_the_limit_is_read_whole(size: int, excess: int) -> None:
    limits, memory = Limits(translated_size=size - excess), RequestMemory(1 << 20)
    data = bytes(range(256)) * (size // 256 + 1)

    async def use(client: Stream, theirs: socket.socket) -> None:
        theirs.sendall(data[:size] + b"next")
        await client.ensure(min(size, PREFIX_SIZE))
        request = ClientRequest(client, size, limits, memory.of("a"))
        if excess:
            text = f"of {size} bytes is too large to be translated: the limit is {size - 1}"
            with pytest.raises(BadRequestError, match=text):
                await request.whole()
            return
        assert await request.whole() == data[:size]
        request.release()
        await client.ensure(4)
        assert bytes(client.available) == b"next"
        assert memory.free == 1 << 20

    with_stream(use)


def test_a_client_has_one_time_for_a_whole_request_however_it_sends_its_bytes() -> None:
    """A client that sends a byte now and then would hold its memory for hours."""
    limits, memory = Limits(receive_timeout=0.3), RequestMemory(1 << 20)

    async def use(client: Stream, theirs: socket.socket) -> None:
        request = ClientRequest(client, 1000, limits, memory.of("a"))
        loop = asyncio.get_running_loop()
        begun = loop.time()

        async def send_slowly() -> None:
            for _ in range(900):  # too few for the whole request
                theirs.send(b"a")
                await asyncio.sleep(0.03)

        sending = loop.create_task(send_slowly())
        try:
            with pytest.raises(TimeoutError):
                await request.whole()
            assert loop.time() - begun < 10.0
            assert memory.free < 1 << 20
        finally:
            sending.cancel()

    with_stream(use)


@pytest.mark.parametrize("leaves", ["closes", "sends no more"])
@pytest.mark.parametrize("arrived", [5, PREFIX_SIZE + 5, 6 * PREFIX_SIZE - 1])
def test_a_client_that_left_halfway_does_not_wait_for_memory(arrived: int, leaves: str) -> None:
    """It may hold much of it already."""
    limits, memory = Limits(receive_timeout=60), RequestMemory(PREFIX_SIZE)
    size = 7 * PREFIX_SIZE

    async def use(client: Stream, theirs: socket.socket) -> None:
        sent, loop = bytes(PREFIX_SIZE + arrived), asyncio.get_running_loop()
        first, another = memoryview(sent[:PREFIX_SIZE]), memory.of("a")
        request = ClientRequest(client, size, limits, memory.of("a"), first)
        assert another.take(PREFIX_SIZE + 1)
        await loop.sock_sendall(theirs, sent[PREFIX_SIZE:])
        reading = loop.create_task(request.whole())
        await asyncio.sleep(0.05)
        assert not reading.done()
        if leaves == "closes":
            theirs.close()
        else:
            theirs.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(10):
            with pytest.raises(ConnectionEndedError, match="the client"):
                await reading

    with_stream(use)


@pytest.mark.parametrize("arrived", [5, PREFIX_SIZE + 5, 6 * PREFIX_SIZE])
def test_a_whole_request_is_read_although_its_client_has_left(arrived: int) -> None:
    limits, memory = Limits(receive_timeout=60), RequestMemory(PREFIX_SIZE)

    async def use(client: Stream, theirs: socket.socket) -> None:
        sent, loop = bytes(PREFIX_SIZE + arrived), asyncio.get_running_loop()
        first, another = memoryview(sent[:PREFIX_SIZE]), memory.of("a")
        request = ClientRequest(client, len(sent), limits, memory.of("a"), first)
        assert another.take(PREFIX_SIZE + 1)
        await loop.sock_sendall(theirs, sent[PREFIX_SIZE:])
        theirs.close()
        reading = loop.create_task(request.whole())
        await asyncio.sleep(0.05)
        assert not reading.done()
        another.release()
        async with asyncio.timeout(10):
            assert await reading == sent

    with_stream(use)


@pytest.mark.parametrize("has_some", [False, True])
def test_the_time_of_a_request_runs_while_it_has_memory(has_some: bool) -> None:
    """One that waits for its first memory waits for others, and keeps nobody waiting."""
    seconds = 0.3 if has_some else 2.0  # which a busy machine does not take between two tries
    limits, memory = Limits(receive_timeout=seconds), RequestMemory(9 * PREFIX_SIZE)
    sent = bytes(2 * PREFIX_SIZE)

    async def use(client: Stream, theirs: socket.socket) -> None:
        first, another = memoryview(sent[:PREFIX_SIZE]), memory.of("a")
        request = ClientRequest(client, len(sent), limits, memory.of("a"), first)
        loop = asyncio.get_running_loop()
        theirs.sendall(sent[PREFIX_SIZE + 1 :] if has_some else sent[PREFIX_SIZE:])
        if not has_some:
            assert another.take(9 * PREFIX_SIZE)
        reading = loop.create_task(request.whole())
        await asyncio.sleep(1.2 * seconds)
        if has_some:
            with pytest.raises(TimeoutError):
                await reading
            return
        assert not reading.done()
        another.release()
        assert await reading == sent

    with_stream(use)


def test_a_request_is_passed_on_only_as_fast_as_the_cluster_takes_requests() -> None:
    """Otherwise a client that sends on would fill the memory while its broker is slow."""

    async def use(client: Stream, theirs: socket.socket) -> None:
        ours, brokers = socket.socketpair()
        brokers.setblocking(False)
        loop = asyncio.get_running_loop()
        with brokers:
            upstream = attached(Stream(), ours)
            sent = bytearray()
            while upstream.is_writable:
                sent += bytes(64 * KiB)
                upstream.send(bytes(64 * KiB))
            theirs.sendall(b"whole")
            await client.ensure(5)
            request = ClientRequest(client, 5, Limits(), RequestMemory(1).of("a"))
            passing = loop.create_task(request.pass_to(upstream))
            await asyncio.sleep(0.05)
            assert not passing.done()
            sent += LENGTH.pack(5) + b"whole"
            got = bytearray()
            while len(got) < len(sent):
                got += await loop.sock_recv(brokers, 1 << 20)
            await passing
            assert got == sent
            upstream.close()

    with_stream(use)


@pytest.mark.parametrize("size", [100, PREFIX_SIZE, PREFIX_SIZE + 1000])
def test_a_request_that_was_read_whole_is_passed_on_whole(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    sent = bytearray()

    class Other(Stream):
        def send(self, piece: memoryview | bytes | bytearray) -> int:
            sent.extend(piece)
            return len(piece)

    async def use(client: Stream, theirs: socket.socket) -> None:
        theirs.sendall(data[:size] + b"next")
        await client.ensure(min(size, PREFIX_SIZE))
        request = ClientRequest(client, size, Limits(), RequestMemory(1 << 20).of("a"))
        await request.whole()
        await request.pass_to(Other())
        request.release()

    with_stream(use)
    assert sent == LENGTH.pack(size) + data[:size]
