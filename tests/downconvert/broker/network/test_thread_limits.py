"""Times of connections, by a clock that the test moves: which ones are too late, and which not."""

import logging
import ssl
import threading
import time
from functools import partial
from pathlib import Path
from selectors import EVENT_WRITE

import pytest

from downconvert.broker.endings import End
from downconvert.broker.exchange import Exchange
from downconvert.broker.network import network_thread
from downconvert.broker.network.connection import Connection
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import FREE_SIZE, Limits
from downconvert.serving.request_memory import ELEMENT_SIZE
from downconvert.serving.tls import server_context, wrap
from records.units import KiB, MiB
from tests.downconvert.broker.asking import frame, value
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.talking import API_VERSIONS, SECONDS, TOPIC, fetch
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

from .one_thread import FIRST_SIZE, START, OneThread, one_thread

ASKED = frame(*API_VERSIONS)
WHOLE = len(ASKED).to_bytes(4) + ASKED
METADATA = (ApiKey.Metadata, 1, Message(topics=[]))


def ended(one: OneThread) -> dict[str, float]:
    """How many connections ended, by reason."""
    found = {end.value: value(one.broker, "connections_ended_total", reason=end) for end in End}
    return {reason: count for reason, count in found.items() if count}


def is_busy(connection: Connection) -> bool:
    return connection.is_muted or connection.exchange is not None


def needs_memory(connection: Connection) -> bool:
    return connection.incoming.is_begun and connection.incoming.space() is None


def has_released(connection: Connection) -> bool:
    return not connection.incoming.is_begun


def arrived(one: OneThread, count: int) -> None:
    """Waits until the thread has read and answered what was sent."""
    other, _ = one.connect()
    with other:
        for _ in range(count):
            assert other.is_served()


def test_a_connection_without_a_byte_ends_after_the_idle_time(tmp_path: Path) -> None:
    with one_thread(tmp_path) as one:
        talk, connection = one.connect()
        one.clock.now = START + 7
        one.answered(talk, connection)
        one.advance(67.0)
        one.answered(talk, connection)
        one.advance(127.0)
        assert not ended(one)
        one.advance(128.0)
        assert talk.has_ended()
        assert ended(one) == {"timed_out": 1}
        assert len(one.places) == 0


def test_a_part_of_a_request_counts_for_the_idle_time(tmp_path: Path) -> None:
    with one_thread(tmp_path, limits=Limits(request=500, idle=10)) as one:
        talk, connection = one.connect()
        talk.socket.sendall(WHOLE[:9])
        wait_for(lambda: connection.request_started is not None)
        one.clock.now = START + 8
        talk.socket.sendall(WHOLE[9:12])
        wait_for(lambda: connection.last_activity == START + 8)
        one.advance(17.0)
        talk.socket.sendall(WHOLE[12:])
        assert talk.receive()
        assert not ended(one)


def test_a_request_has_its_time_from_its_first_byte_on(tmp_path: Path) -> None:
    with one_thread(tmp_path) as one:
        talk, connection = one.connect()
        for start in (1.0, 20.0):
            one.clock.now = START + start
            talk.socket.sendall(WHOLE[:5])
            wait_for(lambda: connection.request_started is not None)
            one.clock.now = START + start + 3
            talk.socket.sendall(WHOLE[5:9])
            one.advance(start + 5)
            assert not ended(one)
            talk.socket.sendall(WHOLE[9:])
            assert talk.receive()
            wait_for(lambda: connection.exchange is None)
            one.advance(start + 11)  # nothing of the next one has come
            assert not ended(one)
        talk.socket.sendall(WHOLE[:5])
        wait_for(lambda: connection.request_started is not None)
        one.clock.now = START + 34
        talk.socket.sendall(WHOLE[5:9])
        wait_for(lambda: connection.last_activity == START + 34)
        one.advance(36.5)
        assert talk.has_ended()
        assert ended(one) == {"timed_out": 1}


def test_a_client_of_tls_need_not_send_a_request_at_once(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    """The end of its handshake is not the first byte of a request."""
    theirs = ssl.create_default_context(cafile=certificate[0])
    with one_thread(tmp_path) as one:
        talk, connection = one.connect(give=False)
        connection.channel = wrap(server_context(*certificate), connection.channel)
        connection.is_tls = connection.in_handshake = True
        connection.request_started = one.clock()
        one.thread.take(connection)
        with theirs.wrap_socket(talk.socket, server_hostname="localhost") as talk.socket:
            wait_for(lambda: not connection.in_handshake)
            one.advance(6.0)
            assert not ended(one)
            assert talk.is_served()
            one.advance(67.0)
            assert talk.has_ended()
            assert ended(one) == {"timed_out": 1}


def test_a_response_that_is_read_slowly_ends_no_connection_and_one_that_is_not_read_does(
    tmp_path: Path,
) -> None:
    with one_thread(tmp_path, limits=Limits(request=5, idle=10), batches=100) as one:
        reads, connection = one.connect(small=True)
        stops, stuck = one.connect(small=True)
        for talk in (reads, stops):
            talk.send(ApiKey.Fetch, 4, fetch(max_bytes=16 * MiB))
            assert talk.socket.recv(1)
        wait_for(lambda: connection.waits_to_write and stuck.waits_to_write)
        one.clock.now = START + 8
        got = 0
        while connection.last_activity < START + 8:
            got += len(reads.socket.recv(1 << 16))
        one.advance(15.0)
        assert ended(one) == {"timed_out": 1}
        stops.drain()
        one.clock.now = START + 16
        while got < 9 * MiB:
            got += len(reads.socket.recv(1 << 20))
        assert len(one.places) == 1


def test_a_client_that_has_to_log_in_has_little_time_for_each_step(tmp_path: Path) -> None:
    with one_thread(tmp_path) as one:
        one.broker.guard = guard_of({"ann": "secret"})
        talk, connection = one.connect(authenticates=True)
        one.clock.now = START + 4
        one.answered(talk, connection)
        one.clock.now = START + 8
        one.answered(talk, connection)
        one.advance(13.0)
        assert not ended(one)
        assert connection.incoming.size_max == FIRST_SIZE
        evicted = one.places.take("10.0.0.2", 1, 1)  # its place is not kept
        assert (len(one.places), evicted.address) == (1, "10.0.0.2")
        one.advance(14.0)
        assert talk.has_ended()


def test_a_client_that_is_known_keeps_its_place_and_has_time(tmp_path: Path) -> None:
    with one_thread(tmp_path) as one:
        talk, connection = one.connect(authenticates=True)
        one.answered(talk, connection, *METADATA)  # no login is needed here
        assert connection.incoming.size_max == one.limits.request_size
        one.advance(20.0)
        assert talk.is_served()
        assert not ended(one)


def test_a_client_beyond_its_rate_is_read_again_at_the_time_and_is_not_idle(
    tmp_path: Path,
) -> None:
    def throttle(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        exchange.throttle = 50.0
        exchange.reply(Message(brokers=[], topics=[]))

    with one_thread(tmp_path, limits=Limits(request=5, idle=10)) as one:
        one.handle(ApiKey.Metadata, throttle)
        talk, connection = one.connect()
        one.clock.now = START + 2
        one.answered(talk, connection, *METADATA)
        talk.send(*API_VERSIONS)
        one.advance(51.0)
        assert (connection.is_muted, connection.client.requests, ended(one)) == (True, 1, {})
        one.advance(52.0)
        assert talk.receive()
        one.answered(talk, connection, *METADATA)
        one.advance(102.0)  # its idle time begins now
        one.advance(112.0)
        assert not ended(one)
        one.advance(113.0)
        assert talk.has_ended()


def test_a_client_beyond_its_rate_waits_from_its_request_and_not_from_its_response(
    tmp_path: Path,
) -> None:
    """A response that takes long to come is a part of the wait."""
    with one_thread(tmp_path) as one:
        held = one.hold(ApiKey.Metadata)
        talk, connection = one.connect()
        one.clock.now = START + 2
        talk.send(*METADATA)
        wait_for(lambda: bool(held))
        one.advance(20.0)
        held[0].throttle = 30.0
        held[0].reply(Message(brokers=[], topics=[]))
        assert talk.receive()
        talk.send(*API_VERSIONS)
        one.advance(31.0)
        assert (connection.is_muted, connection.client.requests) == (True, 1)
        one.advance(32.0)
        assert talk.receive()
        wait_for(lambda: not connection.is_muted)


def test_a_client_that_goes_while_it_has_to_wait_is_noticed(tmp_path: Path) -> None:
    def throttle(_broker: BrokerState, exchange: Exchange, _now: float) -> None:
        exchange.throttle = 50.0
        exchange.reply(Message(brokers=[], topics=[]))

    with one_thread(tmp_path) as one:
        one.handle(ApiKey.Metadata, throttle)
        held = one.hold(ApiKey.ListGroups)
        for api in (ApiKey.Metadata, ApiKey.ListGroups):
            talk, connection = one.connect()
            with talk:
                talk.send(api, 1, Message(topics=[]))
                wait_for(partial(is_busy, connection))
                if api is ApiKey.Metadata:
                    assert talk.receive()
            wait_for(lambda: len(one.places) == 0)
        assert held[0].is_abandoned
        assert ended(one) == {"client_closed": 2}


def test_a_client_that_waits_or_sends_too_early_costs_no_turns(tmp_path: Path) -> None:
    """The selector looks only for what the thread can use."""
    with one_thread(tmp_path, memory=0, batches=100) as one:
        held = one.hold(ApiKey.ListGroups)
        waiting, waits = one.connect()
        waiting.send(ApiKey.ListGroups, 0, Message())
        wait_for(lambda: bool(held))
        waiting.send(*API_VERSIONS)
        slow, slows = one.connect(small=True)
        slow.send(ApiKey.Fetch, 4, fetch(max_bytes=16 * MiB))
        wait_for(lambda: slows.waits_to_write)
        slow.send(*API_VERSIONS)
        assert one.memory.of("10.0.0.1").take(1)  # so nobody else has any
        large, larges = one.connect()
        large.socket.sendall((FREE_SIZE * 3).to_bytes(4) + bytes(FREE_SIZE * 2))
        wait_for(lambda: larges.incoming.space() is None)
        arrived(one, 3)
        assert (waits.interest, slows.interest, larges.interest) == (0, EVENT_WRITE, 0)
        (ident,) = (thread.ident for thread in threading.enumerate() if thread.name == "one")
        own_time = time.pthread_getcpuclockid(ident or 0)  # other threads have theirs
        before, used = one.clock.reads, time.clock_gettime(own_time)
        time.sleep(0.2)  # in which nothing happens
        assert one.clock.reads - before < 200
        assert time.clock_gettime(own_time) - used < 0.05


def test_the_time_of_a_request_runs_while_it_has_memory(tmp_path: Path) -> None:
    """One that waits for its first memory waits for others, and keeps nobody waiting."""
    data = frame(ApiKey.Metadata, 1, Message(topics=[Message(name="t" * 200)] * 50))
    whole, size = len(data).to_bytes(4) + data, 90 * KiB
    with one_thread(tmp_path, memory=size) as one:
        another, has_some = one.memory.of("10.0.0.2"), one.connect()
        has_some[0].socket.sendall(whole[:-1])
        wait_for(lambda: one.memory.free < size)
        assert another.take(size)
        has_none = one.connect()
        has_none[0].socket.sendall(whole)
        wait_for(partial(needs_memory, has_none[1]))
        one.advance(6.0)
        assert has_some[0].has_ended()
        assert ended(one) == {"timed_out": 1}
        another.release()
        assert has_none[0].receive()
        has_none[0].socket.sendall(whole[:-1])
        wait_for(lambda: has_none[1].request_started == START + 6)
        one.advance(12.0)
        assert has_none[0].has_ended()


def test_all_requests_that_found_no_memory_are_tried_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the tick of every second only."""
    monkeypatch.setattr(network_thread, "SWEEP", 1000.0)
    size = FREE_SIZE * 2
    produced = Message(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            Message(
                name=TOPIC, partition_data=[Message(index=0, records=batch(0, size=FREE_SIZE * 2))]
            )
        ],
    )
    with one_thread(tmp_path, memory=100 * size) as one:
        talks = [one.connect() for _ in range(4)]
        another, favoured = one.memory.of("10.0.0.2"), one.memory.of("10.0.0.3")
        for _ in range(10):
            assert favoured.take(34 * size)  # so nobody else may take more than there is
            assert not another.charge(66 * size // ELEMENT_SIZE)
            assert favoured.take(1)
            for talk, connection in talks:
                talk.send(ApiKey.Produce, 3, produced)
                wait_for(partial(needs_memory, connection))
            another.release()
            for talk, connection in talks:
                assert talk.receive()
                wait_for(partial(has_released, connection))
            favoured.release()


def test_work_of_every_second_is_done_once_a_second(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_now: float) -> None:
        raise KeyError("a defect")

    with one_thread(tmp_path, starts=False) as one:
        one.thread.on_ticks.insert(0, fail)
        one.thread.start()
        assert one.ticks.get(timeout=SECONDS) == START
        one.clock.is_ahead = 7.0
        log = logging.getLogger("tests.lines")
        for number in range(12):
            one.broker.lines.write(log, START, logging.WARNING, "kind", "line %d", number)  # type: ignore[arg-type]
        one.clock.now = START + 0.9
        arrived(one, 2)
        assert one.ticks.empty()
        assert one.broker.time_of_day.shift == 0.0
        one.advance(1.0)
        assert one.broker.time_of_day.shift == 7.0
        assert one.thread.is_alive()
        lines = [record.getMessage() for record in caplog.records]
    assert lines.count("a defect in the work that is done each second") == 2
    assert "and 2 more, the last one: line 11" in lines


def test_a_defect_of_the_clock_ends_no_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_now: float) -> None:
        raise KeyError("a defect")

    with one_thread(tmp_path) as one:
        one.thread.keeps_time = True
        monkeypatch.setattr(one.broker, "keep_time", fail)
        waiting, _ = one.connect()
        waiting.send(ApiKey.Fetch, 4, fetch(30, wait=60_000))
        wait_for(lambda: len(one.broker.purgatory) == 1)
        wait_for(lambda: START + 60 in one.deadlines)
        one.advance(61.0)
        arrived(one, 2)
        assert one.thread.is_alive()
        monkeypatch.undo()
    assert any("defect in timed work" in record.getMessage() for record in caplog.records)
