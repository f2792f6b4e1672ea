"""Steps of one connection in its thread: handshakes, handed over requests, unfinished writes."""

import socket
import ssl
import tracemalloc
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker import Broker
from downconvert.broker.exchange import Exchange
from downconvert.broker.network.connection import Connection
from downconvert.broker.state import BrokerState
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import FREE_SIZE, Limits
from downconvert.serving.request_memory import ELEMENT_SIZE
from records.units import MiB
from tests.downconvert.broker.asking import frame
from tests.downconvert.broker.talking import API_VERSIONS
from tests.waiting import wait_for

from .one_thread import START, one_thread

METADATA = (ApiKey.Metadata, 1, Message(topics=[]))
HELLO = b"hello"
EMPTY = Message(brokers=[], topics=[])


class Tls:
    """A channel like one of TLS, whose handshake takes these steps."""

    def __init__(self, plain: socket.socket, *steps: type[Exception]) -> None:
        self._plain = plain
        self._steps = list(steps)
        self._has_begun = False

    def do_handshake(self) -> None:
        if not self._has_begun:
            self._has_begun = bool(self._plain.recv(len(HELLO)))
        if self._steps:
            raise self._steps.pop(0)

    def getpeercert(self) -> None:
        return None

    def fileno(self) -> int:
        return self._plain.fileno()

    def recv(self, size: int) -> bytes:
        return self._plain.recv(size)

    def recv_into(self, buffer: memoryview) -> int:
        return self._plain.recv_into(buffer)

    def send(self, data: memoryview) -> int:
        return self._plain.send(data)

    def setsockopt(self, *args: Any) -> None:
        self._plain.setsockopt(*args)

    def close(self) -> None:
        self._plain.close()


@pytest.mark.parametrize(
    "steps", [(), (ssl.SSLWantWriteError,), (ssl.SSLWantWriteError, ssl.SSLWantWriteError)]
)
def test_a_handshake_that_has_to_write_goes_on(
    tmp_path: Path, steps: tuple[type[Exception], ...]
) -> None:
    with one_thread(tmp_path) as one:
        talk, connection = one.connect(give=False)
        connection.channel = Tls(connection.channel, *steps)
        connection.is_tls = connection.in_handshake = True
        connection.request_started = START
        one.thread.take(connection)
        talk.socket.sendall(HELLO)
        wait_for(lambda: not connection.in_handshake)  # its client waits, and sends nothing more
        asked = frame(*API_VERSIONS)
        talk.socket.sendall((len(asked).to_bytes(4) + asked) * 5)
        assert len({talk.receive() for _ in range(5)}) == 1
        one.advance(20.0)  # it has no less time than others
        assert talk.is_served()


def test_a_client_that_goes_is_noticed_after_its_request_moved_to_another_thread(
    tmp_path: Path,
) -> None:
    with one_thread(tmp_path) as one:
        held = one.hold(ApiKey.Metadata)
        talk, connection = one.connect(give=False)
        connection.frame = memoryview(frame(*METADATA))
        one.thread.take(connection)
        wait_for(lambda: bool(held))
        talk.socket.close()
        wait_for(lambda: len(one.places) == 0)
        assert held[0].is_abandoned


def test_a_request_that_came_in_parts_may_wait_for_its_response(tmp_path: Path) -> None:
    with one_thread(tmp_path) as one:
        held = one.hold(ApiKey.Metadata)
        talk, connection = one.connect()
        asked = frame(*METADATA)
        talk.socket.sendall(len(asked).to_bytes(4) + asked[:6])
        wait_for(lambda: connection.request_started is not None)
        talk.socket.sendall(asked[6:])
        wait_for(lambda: bool(held))
        one.advance(50.0)
        one.advance(500.0)
        held[0].reply(EMPTY)
        assert talk.receive()


def test_a_step_that_waits_for_a_time_tells_the_thread_that_keeps_it(tmp_path: Path) -> None:
    def begin(broker: BrokerState, exchange: Exchange, _now: float) -> None:
        def step(now: float) -> None:
            broker.purgatory.call_at(START + 77, lambda _now: None, now)
            exchange.reply(EMPTY)

        exchange.post(step)

    with one_thread(tmp_path) as one:
        one.handle(ApiKey.Metadata, begin)
        talk, _ = one.connect()
        assert talk.ask(*METADATA)
        wait_for(lambda: START + 77 in one.deadlines)


class Late(Exchange):
    """An exchange that another thread answers while its callback is set."""

    __slots__ = ("_call",)

    is_before = True  # it is answered before it knows whom to call

    @property
    def on_done(self) -> Any:
        return getattr(self, "_call", None)

    @on_done.setter
    def on_done(self, call: Any) -> None:
        responses = call is not None and self.request.api is ApiKey.Metadata
        if responses and self.is_before:
            self.reply(EMPTY)
        self._call = call
        if responses and not self.is_before:
            self.reply(EMPTY)


class Later(Late):
    __slots__ = ()

    is_before = False


@pytest.mark.usefixtures("without_defects")
@pytest.mark.parametrize("kind", [Late, Later])
def test_a_response_while_the_thread_begins_to_wait_for_it_is_sent_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exchange]
) -> None:
    monkeypatch.setattr(Broker, "exchange_type", kind)
    with one_thread(tmp_path) as one:
        one.hold(ApiKey.Metadata)
        talk, _ = one.connect()
        for _ in range(3):
            assert talk.ask(*METADATA)
        assert talk.is_served()


def test_a_thread_that_has_ended_keeps_no_descriptors(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    found = []
    for name in "abc":
        (tmp_path / name).mkdir()
        with one_thread(tmp_path / name) as one:
            talk, _ = one.connect()
            assert talk.is_served()
        talk.socket.close()
        found.append(descriptors())
    assert found[1] == found[2]


class OneLeft(ResponseSend):
    """A response whose first write leaves one byte."""

    def __init__(self, frame: bytes) -> None:
        super().__init__([bytearray(frame)])
        self._frame = memoryview(frame)

    def write_to(self, channel: Any, _budget: int | None = None, *, more: bool = False) -> int:  # noqa: ARG002
        last = len(self._frame) - 1
        part = self._frame[:last] if not self.sent else self._frame[last:]
        self.sent += len(part)
        return int(channel.send(part))


def test_a_response_ends_with_its_last_byte(tmp_path: Path) -> None:
    def send(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        exchange.finish(OneLeft(b"\0\0\0\x05hello"))

    with one_thread(tmp_path) as one:
        one.handle(ApiKey.Metadata, send)
        talk, _ = one.connect()
        for _ in range(3):
            talk.send(*METADATA)
            assert talk.receive() == b"\0\0\0\x05hello"
        assert talk.is_served()


def test_a_client_that_goes_amid_a_large_request_gives_its_memory_back(tmp_path: Path) -> None:
    size = 16 * FREE_SIZE
    with one_thread(tmp_path, memory=size) as one:
        talk, connection = one.connect()
        talk.socket.sendall(size.to_bytes(4) + bytes(size // 2))
        wait_for(lambda: connection.incoming.is_begun)
        talk.socket.close()
        wait_for(lambda: len(one.places) == 0)
        assert one.memory.free == size
        assert one.memory.of("10.0.0.2").take(size)  # not, if another were favoured


def request_of(elements: int) -> bytes:
    """A request and its length."""
    partitions = [Message(partition_index=0, timestamp=-1) for _ in range(elements)]
    body = Message(replica_id=-1, topics=[Message(name="t", partitions=partitions)])
    data = frame(ApiKey.ListOffsets, 1, body)
    return len(data).to_bytes(4) + data


@pytest.mark.parametrize("is_given", [False, True])
def test_requests_under_way_count_by_what_their_elements_take(
    tmp_path: Path, is_given: bool
) -> None:
    """Their bytes alone would all have room, and be handled at once. Another thread may give whole
    requests."""
    elements, clients, memory = 5000, 4, 9 * MiB
    request, seconds, share = request_of(elements), map(float, count(1)), memory // 3
    assert clients * len(request) < share < 2 * elements * ELEMENT_SIZE
    with one_thread(tmp_path, memory=memory, limits=Limits(request=600.0)) as one:
        held = one.hold(ApiKey.ListOffsets)
        tracemalloc.start()
        talks = [one.connect(give=not is_given) for _ in range(clients)]
        for talk, connection in talks:
            if is_given:
                connection.frame = given(connection, request)
                one.thread.take(connection)
            else:
                talk.socket.sendall(request)
        for answered in range(clients):
            handled = min(2 + answered, clients)
            wait_for(partial(lambda least: len(held) >= least, handled))
            for _ in range(clients):  # so it has handled all that it may
                one.advance(next(seconds))
            assert len(held) == handled
            exchange = held[answered]
            exchange.post(partial(lambda one, _: one.reply(Message(topics=[])), exchange))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        for talk, _ in talks:
            assert talk.receive()
        wait_for(lambda: one.memory.free == memory)
    assert peak < 3 * elements * ELEMENT_SIZE


def given(connection: Connection, request: bytes) -> memoryview:
    """The frame of a request that has arrived."""
    left, found = memoryview(request), None
    while left:
        space = connection.incoming.space()
        assert space is not None
        size = min(len(space), len(left))
        space[:size] = left[:size]
        space.release()
        found, left = connection.incoming.received(size), left[size:]
    assert found is not None
    return found
