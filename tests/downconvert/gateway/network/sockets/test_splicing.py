"""Responses that pass through without coming into the process. Bytes are counted, not time."""

import asyncio
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from time import sleep
from types import FrameType

import pytest

from downconvert.broker import Broker
from downconvert.gateway.network.sockets import pipes, splicing
from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.splicing import forward
from downconvert.gateway.network.sockets.streams import Stream
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from records.units import KiB, MiB
from tests.downconvert.broker.asking import parsed
from tests.downconvert.gateway.cluster import append
from tests.downconvert.gateway.cutting import Cut, wired
from tests.downconvert.gateway.serving import Wire, cluster, gateway, over_tls
from tests.downconvert.gateway.talk import fetch_body, values_of
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

from .connected import attached, in_loop

VERSION = 11  # which the cluster takes as it is
COUNT, SIZE = 60, 50_000  # records: 3 MB
ALL = Message(topics=None)
pytestmark = pytest.mark.skipif(not splicing.IS_POSSIBLE, reason="the system has no splice")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Broker, Gateway]]:
    with cluster(tmp_path, "t") as (broker, port), gateway(port) as running:
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        yield broker, running


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Bytes that came into the process from brokers."""
    counts = Counter[str]()
    updated = Stream.buffer_updated

    def counted(self: Stream, nbytes: int) -> None:
        counts["broker" if "broker" in self.peer else "client"] += nbytes
        updated(self, nbytes)

    monkeypatch.setattr(Stream, "buffer_updated", counted)
    return counts


def body() -> Message:
    return fetch_body(0, max_bytes=1 << 23)


def count(response: Message) -> int:
    return len(values_of(response.responses[0].partitions[0]))


def test_large_responses_do_not_come_into_the_process(
    served: tuple[Broker, Gateway], read: Counter[str]
) -> None:
    _, running = served
    with Wire(running.address) as client:
        for _ in range(3):
            assert count(client.ask(ApiKey.Fetch, VERSION, body())) == COUNT
        assert client.ask(ApiKey.Metadata, 1, ALL).topics  # what follows is read again
    assert read["broker"] < COUNT * SIZE * 3 // 10


def test_a_slow_client_gets_all_of_it(served: tuple[Broker, Gateway], read: Counter[str]) -> None:
    _, running = served
    with Wire(running.address, SO_RCVBUF=64 * KiB) as client:
        client.send(ApiKey.Fetch, VERSION, body())
        client.send(ApiKey.Metadata, 1, ALL)  # waits behind it
        whole = client.receive_slowly(3_001)
        assert count(parsed(ApiKey.Fetch, VERSION, whole)) == COUNT
        assert parsed(ApiKey.Metadata, 1, client.receive()).topics
    assert read["broker"] < COUNT * SIZE // 10


def test_a_client_that_leaves_within_a_response_frees_its_place(
    served: tuple[Broker, Gateway],
) -> None:
    _, running = served
    with Wire(running.address, SO_RCVBUF=4096) as client:
        client.send(ApiKey.Fetch, VERSION, body())
        client.take(1000)
    wait_for(lambda: len(running.places) == 0)
    wait_for(lambda: bool(running.figures().ends["client_closed"]))


def test_the_side_that_ended_is_known_before_the_loop_tells_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(splicing, "TURN_SIZE", 1)

    async def read_from(which: int) -> str:
        async with connections(UNLIMITED) as ((source, target), ends):
            for end in ends:
                end.send(bytes(64 * KiB))
            asyncio.get_running_loop().call_soon((source, target)[which].abort)
            with pytest.raises(ConnectionEndedError) as error:
                await forward(source, target, MiB)
        return error.value.peer

    assert [in_loop(read_from(which)) for which in range(2)] == list(UNLIMITED)


@pytest.mark.parametrize("begun", [True, False])
def test_a_broker_that_resets_or_has_gone_is_reported_as_such(begun: bool) -> None:
    async def run() -> str:
        loop = asyncio.get_running_loop()
        async with connections(UNLIMITED) as ((source, target), ends):
            ends[0].send(bytes(1000))
            await source.ensure(8)
            if begun:
                copying = loop.create_task(forward(source, target, MiB))
                assert len(await loop.sock_recv(ends[1], 1000)) == 1000
                ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                ends[0].close()
            else:
                ends[0].close()
                while not source.transport.is_closing():
                    await asyncio.sleep(0.001)
                copying = loop.create_task(forward(source, target, MiB))
            with pytest.raises(ConnectionEndedError) as error:
                await copying
        return error.value.peer

    assert in_loop(run()) == "the broker"


def test_a_client_that_sends_requests_during_a_response_gets_all_of_it() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with connections(UNLIMITED) as ((source, target), ends):
            ends[0].send(bytes(1000))
            copying = loop.create_task(forward(source, target, MiB))
            got = len(await loop.sock_recv(ends[1], 1000))
            ends[1].send(b"the next request")
            while not target.available:
                await asyncio.sleep(0.001)
            sending = loop.create_task(loop.sock_sendall(ends[0], bytes(MiB - 1000)))
            while got < MiB:
                got += len(await loop.sock_recv(ends[1], MiB))
            await copying
            await sending
            assert bytes(target.available) == b"the next request"

    in_loop(run())


@pytest.mark.parametrize("size", [splicing.WORTHWHILE - 1, splicing.WORTHWHILE, MiB])
@pytest.mark.parametrize("head", [0, 1000])
def test_bytes_that_wait_for_the_target_go_before_those_that_are_forwarded(
    size: int, head: int
) -> None:
    """This holds for each way of forwarding, and for any number of bytes that were read before."""
    rest = bytes(range(1, 251)) * (size // 250 + 1)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with connections(UNLIMITED) as ((source, target), ends):
            waiting = 0
            while target.is_writable:
                waiting += target.send(bytes(64 * KiB))
            if head:
                ends[0].sendall(rest[:head])
                await source.ensure(head)
            sending = loop.create_task(loop.sock_sendall(ends[0], rest[head:size]))
            copying = loop.create_task(forward(source, target, size))
            got = bytearray()
            while len(got) < waiting + size:
                await asyncio.sleep(0)
                got += await loop.sock_recv(ends[1], 64 * KiB)
            await copying
            await sending
            assert got == bytes(waiting) + rest[:size]

    in_loop(run())


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the loop calls splices, and how often they say what to watch."""
    counts = Counter[str]()
    for name in ("_advance", "_watch"):
        read_from = getattr(splicing.Splice, name)

        def counted(
            self: splicing.Splice,
            *args: int | None,
            read_from: Callable[..., None] = read_from,
            name: str = name,
        ) -> None:
            changes = name == "_advance" or args[0] != self._watched
            counts[name] += changes
            read_from(self, *args)

        monkeypatch.setattr(splicing.Splice, name, counted)
    return counts


PIECES, PIECE = 6, 25 * KiB
UNLIMITED: dict[str, float | None] = {"the broker": None, "the client": None}


@asynccontextmanager
async def connections(
    patience: dict[str, float | None],
) -> AsyncIterator[tuple[list[Stream], list[socket.socket]]]:
    """The broker's and the client's, as the gateway has them, and their other ends."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        streams, ends = [], []
        for peer, seconds in patience.items():
            there = stack.enter_context(socket.create_connection(listening.getsockname()))
            here = stack.enter_context(listening.accept()[0])
            there.setblocking(False)
            streams.append(attached(Stream(peer, seconds), here))
            ends.append(there)
        yield streams, ends
        for stream in streams:
            stream.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_piece_is_moved_in_one_call_of_the_loop_and_nothing_is_watched_anew(
    work: Counter[str], at_once: bool
) -> None:
    data = [bytes([number]) * PIECE for number in range(PIECES)]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with connections(UNLIMITED) as (streams, ends):
            source, target = streams
            source.lend(0)[0].close()  # it reads nothing by itself
            if at_once:
                ends[0].sendall(b"".join(data))
            copying = loop.create_task(forward(source, target, PIECES * PIECE))
            for piece in data:
                if not at_once:
                    await asyncio.sleep(0)
                    ends[0].sendall(piece)
                got = b""
                while len(got) < PIECE:
                    got += await loop.sock_recv(ends[1], PIECE - len(got))
                assert got == piece
            await copying

    in_loop(run())
    assert work["_advance"] <= (1 if at_once else PIECES + 1)
    assert work["_watch"] == (0 if at_once else 2), "watched once, and not any more at its end"


@pytest.mark.parametrize("first", [0, 10 * KiB])
def test_pieces_are_moved_without_a_turn_of_the_loop(first: int) -> None:
    """The other sides are threads, and slow."""
    data = b"".join(bytes([number]) * PIECE for number in range(PIECES))
    turns = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal turns
        turns += event == "call" and frame.f_code.co_name == "_run_once"

    async def run() -> None:
        async with connections(UNLIMITED) as ((source, target), ends):
            for end in ends:
                end.setblocking(True)

            def send() -> None:
                for at in range(first, len(data), PIECE):
                    sleep(0.01)
                    ends[0].sendall(data[at : at + PIECE])

            def receive() -> bytes:
                got = b""
                while len(got) < len(data):
                    got += ends[1].recv(PIECE)
                return got

            if first:
                ends[0].sendall(data[:first])
                await source.ensure(first)
            source.lend(0)[0].close()  # it reads nothing by itself
            with ThreadPoolExecutor(2) as threads:
                sent = threads.submit(send)
                received = threads.submit(receive)
                sys.setprofile(count)
                try:
                    await forward(source, target, len(data))
                finally:
                    sys.setprofile(None)
                sent.result()
                assert received.result() == data

    in_loop(run())
    assert turns <= 2, "one to wait, and one to return to the task"


@pytest.mark.parametrize(("turn_size", "rounds"), [(2 * PIECE, 100), (100 * PIECE, 2)])
def test_others_have_their_turn_after_so_many_bytes_or_rounds(
    work: Counter[str], monkeypatch: pytest.MonkeyPatch, turn_size: int, rounds: int
) -> None:
    monkeypatch.setattr(pipes, "PIPE_SIZE", PIECE)
    monkeypatch.setattr(splicing, "TURN_SIZE", turn_size)
    monkeypatch.setattr(splicing, "ROUNDS", rounds)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with connections(UNLIMITED) as ((source, target), ends):
            source.lend(0)[0].close()  # it reads nothing by itself
            ends[0].sendall(bytes(PIECES * PIECE))
            await forward(source, target, PIECES * PIECE)
            got = 0
            while got < PIECES * PIECE:
                got += len(await loop.sock_recv(ends[1], MiB))

    in_loop(run())
    assert work["_advance"] >= PIECES // 2


@pytest.mark.parametrize("silent", ["the broker", "the client"])
def test_the_side_that_is_silent_for_too_long_is_named(silent: str) -> None:
    patience: dict[str, float | None] = {"the broker": 600.0, "the client": 600.0, silent: 0.05}

    async def run() -> None:
        async with connections(patience) as ((source, target), ends):
            if silent == "the client":  # it takes nothing, and the broker has more than fits
                loop = asyncio.get_running_loop()
                sending = loop.create_task(loop.sock_sendall(ends[0], bytes(8 * MiB)))
            with pytest.raises(TimeoutError, match=f"{silent} has neither sent nor taken a byte"):
                await forward(source, target, 8 * MiB)
            if silent == "the client":
                sending.cancel()

    in_loop(run())


@pytest.mark.parametrize("patient", ["the broker", "the client"])
def test_each_side_of_a_splice_has_its_own_time_limit(patient: str) -> None:
    """While one is waited for, the other's limit does not count."""
    patience: dict[str, float | None] = {"the broker": 0.1, "the client": 0.1, patient: 600.0}
    size = 8 * MiB

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with connections(patience) as ((source, target), ends):
            sending: asyncio.Task[None] | None = None
            if patient == "the client":
                sending = loop.create_task(loop.sock_sendall(ends[0], bytes(size)))
            copying = loop.create_task(forward(source, target, size))
            await asyncio.sleep(0.3)  # the patient one is silent
            assert not copying.done()
            if sending is None:
                sending = loop.create_task(loop.sock_sendall(ends[0], bytes(size)))
            got = 0
            while got < size:
                got += len(await loop.sock_recv(ends[1], MiB))
            await copying
            await sending

    in_loop(run())


def test_a_broker_that_closes_within_a_response_ends_the_connection(tmp_path: Path) -> None:
    with cluster(tmp_path, "t") as (broker, port):
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        with wired(port) as wire, gateway(wire.port) as running:
            wait_for(lambda: not running.unready())
            wire.cut = Cut(of_requests=False, size=COUNT * SIZE // 2)
            client = Wire(running.address)
            client.send(ApiKey.Fetch, VERSION, body())
            with pytest.raises((EOFError, ConnectionError)):
                client.receive()
            wait_for(lambda: bool(running.figures().ends["broker_failed"]))


def test_a_response_over_tls_is_copied_and_not_spliced(tmp_path: Path, read: Counter[str]) -> None:
    with over_tls(tmp_path) as (broker, client):
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        assert count(client.ask(ApiKey.Fetch, VERSION, body())) == COUNT
    assert read["broker"] > COUNT * SIZE
