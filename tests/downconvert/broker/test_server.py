"""Requests and responses over real sockets, from the first to the last."""

import logging
import select
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from downconvert.broker.exchange import Exchange
from downconvert.broker.handlers.apis import Api
from downconvert.broker.network.wake import Wake
from downconvert.broker.server import Server
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from records.units import KiB, MiB
from tests.descriptors import open_files
from tests.ports import LOOPBACK, free_ports
from tests.waiting import wait_for

from .asking import frame
from .fetching import broker_of
from .talking import API_VERSIONS, QUICK, SECONDS, SMALL_BUFFER, Talk, fetch, fetched, serving


@pytest.mark.parametrize("version", [0, 2, 4])
def test_records_are_served_as_they_are_and_converted(server: Server, version: int) -> None:
    with Talk(server.address) as talk:
        for _ in range(3):
            assert fetched(talk, version)[-1] == 29


def test_responses_have_the_order_of_their_requests(server: Server) -> None:
    with Talk(server.address) as talk:
        for _ in range(20):
            talk.send(ApiKey.Fetch, 2, fetch())
            talk.send(*API_VERSIONS)
        sizes = [len(talk.receive()) for _ in range(40)]
    assert len(set(sizes[::2])) == len(set(sizes[1::2])) == 1
    assert sizes[0] != sizes[1]


def test_requests_that_come_at_once_are_answered_in_order(server: Server) -> None:
    """The same holds if one of them waits and the following ones could be answered."""
    asked = [
        (ApiKey.Metadata, 1, Message(topics=None)),
        (ApiKey.Fetch, 4, fetch(30, wait=100)),
        API_VERSIONS,
        (ApiKey.Fetch, 2, fetch()),
        (ApiKey.Fetch, 4, fetch(0, max_bytes=100)),
    ]
    frames = [frame(*one) for one in asked]
    with Talk(server.address) as talk:
        apart = []
        for one in frames:
            talk.send_frame(one)
            apart.append(talk.receive())
        at_once = b"".join(len(one).to_bytes(4) + one for one in frames * 7)
        for split in (len(at_once), 1000, 33):
            for start in range(0, len(at_once), split):
                talk.socket.sendall(at_once[start : start + split])
            assert [talk.receive() for _ in range(7 * len(frames))] == apart * 7


def test_a_request_may_come_byte_by_byte(server: Server) -> None:
    with Talk(server.address) as talk:
        data = frame(*API_VERSIONS)
        for byte in len(data).to_bytes(4) + data:
            talk.socket.sendall(bytes([byte]))
        assert talk.receive()


def test_brokers_are_advertised_at_the_clients_address(server: Server) -> None:
    with Talk(server.address) as talk:
        (node,) = talk.ask(ApiKey.Metadata, 1, Message(topics=None)).brokers
        assert (node.host, node.port) == server.address


def test_brokers_are_advertised_at_the_operators_address(tmp_path: Path) -> None:
    with (
        serving(tmp_path, advertise=("logs.example.org", 9092)) as server,
        Talk(server.address) as talk,
    ):
        (node,) = talk.ask(ApiKey.Metadata, 1, Message(topics=None)).brokers
        assert (node.host, node.port) == ("logs.example.org", 9092)


@pytest.mark.parametrize("version", [2, 4])
def test_a_fetch_that_waits_is_answered_at_its_deadline(server: Server, version: int) -> None:
    took = []
    with Talk(server.address) as talk:
        for _ in range(10):
            started = time.monotonic()
            talk.ask(ApiKey.Fetch, version, fetch(offset=30, wait=50))
            took.append(time.monotonic() - started)
    assert min(took) >= 0.05
    assert sorted(took)[2] < 0.5  # not at the tick of every second; a busy machine may be late


def test_repeated_wakes_wake_once_and_it_can_be_woken_again() -> None:
    wake = Wake()
    for _ in range(3):
        for _ in range(1000):
            wake.ring()
        assert select.select([wake.reader], [], [], SECONDS)[0]
        assert wake.reader.recv(1024, socket.MSG_PEEK) == b"!"
        wake.drain()
        assert not select.select([wake.reader], [], [], 0)[0]
    wake.close()


def test_records_that_change_while_they_are_sent_end_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serving(tmp_path, batches=40, size=20 * KiB) as server,
        Talk(server.address, receive_buffer=SMALL_BUFFER) as talk,
    ):
        talk.send(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
        talk.socket.recv(1)
        (path,) = tmp_path.glob("*/*.log")
        with path.open("r+b") as log:
            log.truncate(1000)
        talk.drain()
        with Talk(server.address) as other:
            assert other.is_served()
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "cannot be finished" in warnings[0]


# --- the end


def test_stopping_finishes_open_requests(tmp_path: Path) -> None:
    with (
        serving(tmp_path, batches=40, size=20 * KiB) as server,
        Talk(server.address, receive_buffer=SMALL_BUFFER) as talk,
    ):
        talk.send(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
        talk.socket.recv(1)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert talk.drain() > 7 * MiB
        stopping.join()


@pytest.mark.parametrize("version", [2, 4])
def test_stopping_answers_waiting_requests(version: int, tmp_path: Path) -> None:
    limits = Limits(stop=SECONDS)
    with serving(tmp_path, limits=limits) as server, Talk(server.address) as talk:
        talk.send(ApiKey.Fetch, version, fetch(offset=30, wait=1_000))
        wait_for(lambda: len(server.broker.purgatory) == 1)
        stopping = threading.Thread(target=server.stop)
        started = time.monotonic()
        stopping.start()
        assert talk.receive()
        stopping.join()
        assert time.monotonic() - started < SECONDS


def test_stopping_does_not_wait_for_idle_clients_or_those_that_do_not_read(tmp_path: Path) -> None:
    listen = LOOPBACK, *free_ports(1)
    with (
        serving(tmp_path, batches=40, size=20 * KiB, limits=QUICK, listen=listen) as server,
        Talk(server.address),
        Talk(server.address, receive_buffer=SMALL_BUFFER) as slow,
    ):
        slow.send(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
        slow.socket.recv(1)
        started, address = time.monotonic(), server.address
        server.stop()
        assert time.monotonic() - started < SECONDS
        with pytest.raises(OSError, match=r".*"):
            socket.create_connection(address, timeout=1)


def test_clients_of_several_threads_that_do_not_read_delay_a_stop_once(tmp_path: Path) -> None:
    """All threads have the same time, and not one after the other."""

    def large(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        exchange.reply_encoded(bytes(8 * MiB))  # more than a socket takes

    stop = 3.0
    with serving(tmp_path, batches=40, size=20 * KiB, limits=Limits(stop=stop)) as server:
        broker = server.broker
        large_ones = {api: Api(large, range(2)) for api in (ApiKey.Metadata, ApiKey.CreateTopics)}
        broker.apis = {**broker.apis, **large_ones}
        with ExitStack() as stack:
            talks = [
                stack.enter_context(Talk(server.address, receive_buffer=SMALL_BUFFER))
                for _ in range(3)
            ]
            assert talks[0].ask(ApiKey.Fetch, 2, fetch(max_bytes=16 * MiB))
            talks[0].send(ApiKey.Metadata, 1, Message(topics=[]))  # in a converting thread
            talks[1].send(ApiKey.Metadata, 1, Message(topics=[]))
            talks[2].send(ApiKey.CreateTopics, 0, Message(topics=[], timeout_ms=1))
            wait_for(lambda: server.limits.requests_memory - server.unread.free > 3 * 8 * MiB)
            started = time.monotonic()
            server.stop()
            assert stop <= time.monotonic() - started < 3 * stop


def test_a_stopped_server_keeps_no_descriptor(tmp_path: Path) -> None:
    with broker_of(tmp_path, {}) as broker:
        before = open_files()
        server = Server(broker)
        server.start()
        with Talk(server.address) as talk:
            assert talk.ask(*API_VERSIONS)
        server.stop()
        assert open_files() <= before


def test_a_server_that_cannot_listen_raises_an_error(server: Server) -> None:
    with pytest.raises(OSError, match="in use"):
        Server(server.broker, server.address).start()
