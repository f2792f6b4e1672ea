"""Clients that do not read large responses take bounded memory, and delay no other client."""

import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from downconvert.broker import Broker
from downconvert.broker.endings import End
from downconvert.broker.exchange import Exchange
from downconvert.broker.handlers.apis import Api
from downconvert.broker.network.connection import Connection
from downconvert.broker.server import Server
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import FREE_SIZE, Limits
from records.units import KiB, MiB
from tests.downconvert.broker.asking import value
from tests.downconvert.broker.talking import SMALL_BUFFER, Talk, serving
from tests.waiting import wait_for

from .one_thread import OneThread, one_thread

LIMIT: Final = 4 * MiB
SIZE: Final = 512 * KiB  # of a response
LARGE: Final = 8 * MiB  # of a response: more than a socket takes
FEW: Final = LIMIT // SIZE - 1  # so many are below the limit
TOPICS: Final = (FREE_SIZE * 2) // 100  # so many names make a request that is counted


@pytest.fixture
def one(tmp_path: Path) -> Iterator[OneThread]:
    """Its responses to Metadata are large."""

    def reply(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        exchange.reply_encoded(bytes(SIZE))

    limits = Limits(requests_memory=LIMIT)
    with one_thread(tmp_path, limits=limits, memory=LIMIT) as one:
        one.handle(ApiKey.Metadata, reply)
        yield one


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def stuck(one: OneThread, clients: ExitStack, topics: int = 0) -> tuple[Talk, Connection]:
    """A client that does not read its response."""
    talk, connection = one.connect(small=True)
    clients.enter_context(talk)
    names = [Message(name=f"{number:0100}") for number in range(topics)]
    talk.send(ApiKey.Metadata, 1, Message(topics=names))
    wait_for(lambda: connection.waits_to_write)
    return talk, connection


def late(broker: Broker) -> float:
    return value(broker, "connections_ended_total", reason=End.TIMEOUT.value)


def test_responses_that_nobody_reads_take_no_more_than_the_limit(
    one: OneThread, clients: ExitStack
) -> None:
    tracemalloc.start()
    clients.callback(tracemalloc.stop)
    for _ in range(4 * FEW):
        stuck(one, clients)
    _, peak = tracemalloc.get_traced_memory()
    assert peak < LIMIT + 3 * SIZE
    wait_for(lambda: late(one.broker) == 3 * FEW)


def test_the_client_that_has_read_last_gets_its_whole_response(
    one: OneThread, clients: ExitStack
) -> None:
    held = [stuck(one, clients) for _ in range(FEW)]
    reads, connection = held[0]
    send = connection.send
    assert send is not None
    got, sent = 0, send.sent
    while send.sent == sent:
        got += len(reads.socket.recv(4 * KiB))
    wait_for(lambda: connection.waits_to_write)
    for _ in range(FEW - 1):
        stuck(one, clients)
    for talk, _ in held[1:]:
        assert talk.drain() < SIZE
    while got < send.size:
        more = len(reads.socket.recv(64 * KiB))
        assert more
        got += more
    wait_for(lambda: connection.exchange is None)
    wait_for(lambda: late(one.broker) == FEW - 1)


def test_a_request_counts_until_its_response_waits_for_its_client(
    one: OneThread, clients: ExitStack
) -> None:
    """Otherwise, requests of clients that do not read would delay those of others."""
    _, connection = stuck(one, clients, TOPICS)
    assert (one.memory.free, one.unread.free < LIMIT - SIZE) == (LIMIT, True)
    connection.channel.shutdown(2)
    wait_for(lambda: len(one.places) == 0)
    assert (one.memory.free, one.unread.free) == (LIMIT, LIMIT)


def test_a_response_that_was_read_counts_no_longer(one: OneThread, clients: ExitStack) -> None:
    talk, connection = stuck(one, clients)
    for _ in range(2):
        assert len(talk.receive()) > SIZE
        wait_for(lambda: connection.exchange is None)
        assert one.unread.free == LIMIT
        talk.send(ApiKey.Metadata, 1, Message(topics=[]))


def test_a_response_counts_no_longer_after_its_client_has_read_nothing_for_too_long(
    one: OneThread, clients: ExitStack
) -> None:
    stuck(one, clients)
    assert one.unread.free < LIMIT
    one.advance(one.limits.idle + 1)
    wait_for(lambda: len(one.places) == 0)
    assert one.unread.free == LIMIT


def large(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
    exchange.reply_encoded(bytes(LARGE))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Its responses to Metadata are large. Three of them are too much together."""
    limits = Limits(requests_memory=3 * LARGE)
    with serving(tmp_path, limits=limits, network_threads=3) as server:
        broker = server.broker
        broker.apis = {**broker.apis, ApiKey.Metadata: Api(large, range(2))}
        yield server


def asks(server: Server, clients: ExitStack, source: str = "") -> Talk:
    """A client that asks, and reads nothing yet."""
    free, ended = server.unread.free, late(server.broker)
    address = server.address
    talk = clients.enter_context(Talk(address, receive_buffer=SMALL_BUFFER, source=source))
    talk.send(ApiKey.Metadata, 1, Message(topics=[]))
    wait_for(lambda: server.unread.free != free or late(server.broker) > ended)
    return talk


def test_the_threads_of_a_server_have_one_limit(server: Server, clients: ExitStack) -> None:
    """The thread of a new response has connections closed that other threads serve."""
    for number in range(8):
        talk = asks(server, clients)
        expected = max(0, number - 1)  # two of these are below the limit
        wait_for(partial(lambda ended: late(server.broker) == ended, expected))
    assert len(talk.receive()) > LARGE


def test_a_slow_client_gets_its_response_beside_others_that_do_not_read(
    server: Server, clients: ExitStack
) -> None:
    """They connect from another address, and it has read nothing for a longer time."""
    slow = asks(server, clients)
    for number in range(1, 6):
        asks(server, clients, "127.0.0.2")
        wait_for(partial(lambda ended: late(server.broker) == ended, number - 1))
    assert len(slow.receive()) > LARGE
