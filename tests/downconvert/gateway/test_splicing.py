"""Answers that pass through without coming into the process. Bytes are counted, not time."""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.broker.wire.schemas import ApiKey, Message
from downconvert.gateway import splicing
from downconvert.gateway.server import Gateway
from downconvert.gateway.streams import ConnectionEndedError, Stream
from records.units import KiB, MiB
from tests.certificates import self_signed
from tests.downconvert.broker.asking import parsed
from tests.downconvert.storage.logs import batch

from .cutting import Cut, wired
from .serving import LENGTH, Wire, cluster, gateway
from .talk import fetch_body, values_of
from .test_server import append, wait_for

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


def count(answer: Message) -> int:
    return len(values_of(answer.responses[0].partitions[0]))


def test_large_answers_do_not_come_into_the_process(
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
        size = client.take(LENGTH.size)
        whole = bytearray(size)
        left = LENGTH.unpack(size)[0]
        while left:
            piece = client.take(min(left, 3001))
            whole += piece
            left -= len(piece)
        assert count(parsed(ApiKey.Fetch, VERSION, bytes(whole))) == COUNT
        assert parsed(ApiKey.Metadata, 1, client.receive()).topics
    assert read["broker"] < COUNT * SIZE // 10


def test_a_client_that_goes_in_the_midst_ends_it(served: tuple[Broker, Gateway]) -> None:
    _, running = served
    with Wire(running.address, SO_RCVBUF=4096) as client:
        client.send(ApiKey.Fetch, VERSION, body())
        client.take(1000)
    wait_for(lambda: running.connections.total() == 0)
    wait_for(lambda: bool(running.figures().ends["client_closed"]))


def test_who_ended_it_is_told_before_the_loop_has_told_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(splicing, "PIPE_SIZE", 4 * KiB)
    monkeypatch.setattr(splicing, "ROUNDS", 1)

    async def told(ends: str) -> str:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            streams = {}
            for peer in ("the client", "the broker"):
                here, there = map(stack.enter_context, socket.socketpair())
                there.setblocking(False)
                here.setblocking(False)
                made = await loop.create_connection(partial(Stream, peer), sock=here)
                streams[peer] = made[1]
                there.send(bytes(64 * KiB))
            loop.call_soon(streams[ends].abort)
            with pytest.raises(ConnectionEndedError) as error:
                await streams["the broker"].copy_to(streams["the client"], MiB)
            for stream in streams.values():
                stream.abort()
            await asyncio.sleep(0)
        return error.value.peer

    for peer in ("the client", "the broker"):
        assert asyncio.run(told(peer)) == peer


def test_a_broker_that_goes_in_the_midst_ends_it(tmp_path: Path) -> None:
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


def test_tls_is_copied(tmp_path: Path, read: Counter[str]) -> None:
    (tmp_path / "log").mkdir()
    certificate, key = self_signed(tmp_path)
    with (
        cluster(tmp_path / "log", "t") as (broker, port),
        gateway(port, tls_cert=certificate, tls_key=key) as running,
        Wire(running.address) as client,
    ):
        append(broker, *(batch(offset, size=SIZE) for offset in range(COUNT)))
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        client.socket = context.wrap_socket(client.socket)
        assert count(client.ask(ApiKey.Fetch, VERSION, body())) == COUNT
    assert read["broker"] > COUNT * SIZE
