"""Turns of one network thread: no client, and no work in progress, keeps the others waiting."""

import logging
import threading
import time
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from downconvert.broker.endings import End
from downconvert.broker.exchange import Exchange
from downconvert.broker.network import network_thread
from downconvert.broker.network.clock import Clock
from downconvert.broker.state import BrokerState
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from records.units import KiB
from tests.downconvert.broker.asking import frame, value
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.talking import API_VERSIONS, SECONDS, fetch
from tests.waiting import wait_for

from .one_thread import START, one_thread

SOON = 30.0  # seconds, on a busy machine
MANY = 40  # requests; if each waited for the tick of a second, they would take longer

TURN = 0.001  # seconds: longer than a turn of the thread
EMPTY = Message(brokers=[], topics=[])
TOPICS = Message(topics=[], timeout_ms=1)


def framed(*requests: tuple[ApiKey, int, Any]) -> bytes:
    frames = [frame(*one) for one in requests]
    return b"".join(len(one).to_bytes(4) + one for one in frames)


METADATA = (ApiKey.Metadata, 1, Message(topics=[]))


@pytest.fixture
def without_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tick of every second comes later than any client of these tests waits."""
    monkeypatch.setattr(network_thread, "SWEEP", 1000.0)


@pytest.mark.usefixtures("without_ticks")
def test_clients_that_send_many_requests_at_once_take_turns(tmp_path: Path) -> None:
    """So does a client that sends its request while those of others are handled."""
    with one_thread(tmp_path) as one:
        order: list[int] = []

        def note(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
            order.append(exchange.client.id)
            one.clock.now += TURN
            if len(order) == 4:
                late.socket.sendall(framed(METADATA))
                time.sleep(0.01)  # until it has come
            exchange.reply(EMPTY)

        one.handle(ApiKey.Metadata, note)
        late, third = one.connect()
        first, second = one.connect(), one.connect()
        ready, may_begin = threading.Event(), threading.Event()

        def hold(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
            ready.set()
            assert may_begin.wait(SECONDS)
            exchange.reply_nothing()

        one.handle(ApiKey.ListGroups, hold)
        holding, _ = one.connect()
        holding.send(ApiKey.ListGroups, 0, Message())
        assert ready.wait(SECONDS)
        for talk, _ in (first, second):
            talk.socket.sendall(framed(*[METADATA] * 10))
        may_begin.set()
        for talk, _ in (first, second):
            for _ in range(10):
                assert talk.receive()
        assert late.receive()
        x, y = first[1].client.id, second[1].client.id
        assert order.index(third.client.id) <= 7
        others = [number for number in order if number in (x, y)]
        assert all(set(others[at : at + 4]) == {x, y} for at in range(0, 20, 4))


@pytest.mark.usefixtures("without_ticks")
@pytest.mark.parametrize("kind", ["post", "post_turn"])
def test_work_in_progress_leaves_turns_to_others_and_goes_on_at_once(
    tmp_path: Path, kind: str
) -> None:
    left = [40]
    served = threading.Event()

    def work(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        def step(_now: float) -> None:
            one.clock.now += TURN
            if served.is_set():
                left[0] -= 1
            if left[0]:
                getattr(exchange, kind)(step)
            else:
                exchange.reply(EMPTY)

        getattr(exchange, kind)(step)

    with one_thread(tmp_path) as one:
        one.handle(ApiKey.Metadata, work)
        worker, _ = one.connect()
        other, _ = one.connect()
        worker.send(*METADATA)
        try:
            for _ in range(3):
                assert other.is_served()
        finally:
            served.set()
        assert worker.receive()


class Endless(ResponseSend):
    """A response of so many bytes that its client takes at any speed. Notes each write."""

    def __init__(
        self, clock: Any, seconds: float, name: str, writes: list[tuple[str, int]]
    ) -> None:
        super().__init__([bytearray()], size=8 * 1024 * KiB)
        self._clock = clock
        self._seconds = seconds
        self._name = name
        self._writes = writes

    def write_to(self, _channel: Any, budget: int | None = None, *, more: bool = False) -> int:  # noqa: ARG002
        assert budget is not None
        size = min(budget, self.remaining)
        self.sent += size
        self._writes.append((self._name, size))
        self._clock.now += self._seconds
        return size


@pytest.mark.parametrize(
    ("seconds", "size_max", "together_max"),
    [(0.00006, 256 * KiB, 10), (0.0004, 128 * KiB, 3), (TURN, 128 * KiB, 2)],
)
def test_large_responses_take_turns(
    tmp_path: Path, seconds: float, size_max: int, together_max: int
) -> None:
    """A fast client gets more bytes at a time, and for no longer than a turn."""
    writes: list[tuple[str, int]] = []
    with one_thread(tmp_path, starts=False) as one:

        def send(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
            exchange.finish(Endless(one.clock, seconds, str(exchange.client.id), writes))

        one.handle(ApiKey.Metadata, send)
        made = [one.connect() for _ in range(2)]
        for talk, _ in made:
            talk.send(*METADATA)
        one.thread.start()
        wait_for(lambda: sum(size for _, size in writes) == 16 * 1024 * KiB)
    assert max(size for _, size in writes) == size_max
    names = [name for name, _ in writes]
    ends = min(len(names) - names[::-1].index(name) for name in set(names))
    _, *groups = [len(list(group)) for _, group in groupby(names[:ends])]  # the first has no rival
    assert max(groups) == together_max


def test_a_client_is_read_again_soon_after_its_rate_allows_it(tmp_path: Path) -> None:
    def throttle(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        exchange.throttle = 0.03 if exchange.client.id > 1 else 1000.0
        exchange.reply(EMPTY)

    with one_thread(tmp_path, clock=Clock()) as one:
        one.handle(ApiKey.Metadata, throttle)
        owes, _ = one.connect()
        assert owes.ask(*METADATA)  # for long, which delays nothing
        talk, _ = one.connect()
        began = time.monotonic()
        for _ in range(MANY):
            talk.send(*METADATA)
        for _ in range(MANY):
            assert talk.receive()
        assert 0.025 * MANY < time.monotonic() - began < SOON
        first = one.ticks.get(timeout=SECONDS)
        assert one.ticks.get(timeout=SECONDS) - first < SOON


def test_only_a_client_that_has_logged_in_moves_to_other_threads(tmp_path: Path) -> None:
    moved: list[Any] = []

    class Other:
        def take(self, connection: Any) -> None:
            moved.append(connection)

    other: Any = Other()
    with one_thread(tmp_path) as one:
        one.thread.processor.administration = other
        one.thread.processor.converting = iter([other])
        one.broker.guard = guard_of({"ann": "secret"})
        for api, version in ((ApiKey.CreateTopics, 0), (ApiKey.Fetch, 0)):
            stranger, _ = one.connect(authenticates=True)
            stranger.send(api, version, fetch() if version == 0 and api is ApiKey.Fetch else TOPICS)
            assert stranger.has_ended()
        assert moved == []
        one.broker.guard = guard_of(None)
        talk, connection = one.connect()
        talk.send(ApiKey.CreateTopics, 0, TOPICS)
        wait_for(lambda: bool(moved))
        assert (moved, connection.interest) == ([connection], 0)
        connection.channel.close()
        connection.place.release()


def test_the_last_response_of_a_connection_is_sent_and_its_end_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "downconvert.broker")

    def close(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        exchange.close("it has had enough", End.EXPIRED)
        exchange.reply(EMPTY)

    with one_thread(tmp_path) as one:
        one.handle(ApiKey.Metadata, close)
        talk, _ = one.connect()
        talk.socket.sendall(framed(API_VERSIONS, METADATA, API_VERSIONS))
        assert talk.receive() != talk.receive()
        assert talk.has_ended()
        wait_for(lambda: len(one.places) == 0)
        assert value(one.broker, "connections_ended_total", reason="session_expired") == 1
        assert value(one.broker, "requests_total", api="ApiVersions", version="0") == 1
        count = value(one.broker, "request_duration_seconds_count", api="ApiVersions")
        assert (count, value(one.broker, "response_bytes_total", api="Metadata") > 0) == (1, True)
    lines = [record.getMessage() for record in caplog.records]
    assert sum("it has had enough" in line for line in lines) == 1
    assert sum("Metadata v1 is answered" in line for line in lines) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# --- the end of the thread


def test_a_thread_that_stops_waits_for_requests_under_way_until_its_time(tmp_path: Path) -> None:
    limits = Limits(request=500, idle=600, stop=20)
    with one_thread(tmp_path, limits=limits) as one:
        held = one.hold(ApiKey.Metadata)
        idle, _ = one.connect()
        quick, _ = one.connect()
        late, _ = one.connect()
        assert idle.is_served()
        quick.send(*METADATA)
        wait_for(lambda: len(held) == 1)
        late.send(*METADATA)
        wait_for(lambda: len(held) == 2)
        one.thread.stop()
        assert idle.has_ended()
        held[0].reply(EMPTY)
        assert quick.receive()
        assert quick.has_ended()
        one.advance(19.0)
        assert one.thread.is_alive()
        one.clock.now = START + 20
        one.thread.wake_up()
        one.thread.join()
        assert late.has_ended()
        assert value(one.broker, "connections_ended_total", reason="server_stopped") == 3
        assert len(one.places) == 0
        assert held[1].is_abandoned


@pytest.mark.parametrize("is_late", [False, True])
def test_a_connection_that_comes_at_the_end_is_served_or_closed(
    tmp_path: Path, is_late: bool
) -> None:
    with one_thread(tmp_path, starts=False) as one:
        held = one.hold(ApiKey.Metadata)
        talk, connection = one.connect(give=False)
        connection.frame = memoryview(frame(*METADATA))  # another thread has read it
        one.thread.take(connection)
        one.thread.stop()
        one.clock.now += 21 if is_late else 0
        one.thread.start()
        if is_late:
            assert talk.has_ended()
        else:
            wait_for(lambda: bool(held))
            held[0].reply(EMPTY)
            assert talk.receive()
        one.thread.join()
        assert len(one.places) == 0


def test_requests_from_other_threads_take_turns_and_none_begins_after_the_end(
    tmp_path: Path,
) -> None:
    with one_thread(tmp_path, limits=Limits(request=500, idle=600, stop=20), starts=False) as one:
        begun: list[float] = []
        order: list[ApiKey] = []
        other, _ = one.connect()
        other.send(ApiKey.ListGroups, 0, Message())

        def list_groups(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
            order.append(ApiKey.ListGroups)
            one.thread.stop()
            exchange.reply(Message(groups=[]))

        def take_long(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
            begun.append(one.clock.now)
            order.append(ApiKey.Metadata)
            one.clock.now += 7
            exchange.reply(EMPTY)

        one.handle(ApiKey.Metadata, take_long)
        one.handle(ApiKey.ListGroups, list_groups)
        talks = []
        for _ in range(5):
            talk, connection = one.connect(give=False)
            connection.frame = memoryview(frame(*METADATA))
            one.thread.take(connection)
            talks.append(talk)
        one.thread.start()
        one.thread.join()
        assert order[:2] == [ApiKey.Metadata, ApiKey.ListGroups]
        assert begun == [START, START + 7, START + 14, START + 21]  # the stop takes 20 s
        assert talks[4].has_ended()
        assert len(one.places) == 0


def test_a_connection_whose_place_another_takes_is_closed_unless_it_has_gone(
    tmp_path: Path,
) -> None:
    with one_thread(tmp_path) as one:
        one.broker.guard = guard_of({"ann": "secret"})
        talk, connection = one.connect(authenticates=True)
        assert talk.is_served()
        for _ in range(2):
            one.thread.evict(connection)
        assert talk.has_ended()
        one.advance(1.0)
        assert value(one.broker, "connections_ended_total", reason="refused") == 1
        assert len(one.places) == 0


def test_a_connection_whose_place_another_takes_before_it_is_served_is_closed(
    tmp_path: Path,
) -> None:
    """Otherwise a flood of connections would exceed the limit."""
    with one_thread(tmp_path) as one:
        talk, connection = one.connect(authenticates=True, give=False)
        connection.place.on_evicted = partial(one.thread.evict, connection)
        one.places.take("10.0.0.2", 1, 1).release()
        one.advance(1.0)  # the thread looks for the connection, and does not know it
        one.thread.take(connection)
        assert talk.has_ended()
        assert len(one.places) == 0
