"""Each connection of a server gets a thread, a size of requests and a place. All of them end."""

import logging
import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_network
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from downconvert.access.guard import Guard
from downconvert.access.identity import ClientRule, Identities, Users
from downconvert.access.rights import Access
from downconvert.access.tokens import Tokens, TokenSettings
from downconvert.broker import Broker
from downconvert.broker.exchange import Exchange
from downconvert.broker.handlers.sasl import REQUEST_SIZE_MAX
from downconvert.broker.network.network_thread import NetworkThread
from downconvert.broker.state import BrokerState
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from downconvert.serving.line_budget import LINES_MAX
from records.logged import log_of
from records.units import KiB
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

from .fetching import broker_of
from .guarding import guard_of
from .talking import SECONDS, TOPIC, Talk, eventually, fetch, fetched, serving, serving_broker
from .writable import writable_broker

EMPTY = Message(topics=[], timeout_ms=1)


def noted(broker: Broker, *apis: ApiKey) -> list[tuple[str, int]]:
    """The thread and the client of each request of these kinds, from now on."""
    found: list[tuple[str, int]] = []

    def noting(handle: Callable[..., None]) -> Callable[..., None]:
        def handler(state: BrokerState, exchange: Exchange, now: float) -> None:
            found.append((threading.current_thread().name, exchange.client.id))
            handle(state, exchange, now)

        return handler

    for api in apis:
        before = broker.apis[api]
        after = type(before)(noting(before.handler), before.versions)
        broker.apis = {**broker.apis, api: after}
    return found


def test_connections_take_turns_among_the_network_threads(tmp_path: Path) -> None:
    with serving(tmp_path, network_threads=3) as server, ExitStack() as stack:
        found = noted(server.broker, ApiKey.Metadata)
        talks = [stack.enter_context(Talk(server.address)) for _ in range(6)]
        for talk in talks + talks[::-1]:
            talk.ask(ApiKey.Metadata, 1, Message(topics=[]))
    threads = [f"network-{n}" for n in (0, 1, 2, 0, 1, 2)]
    assert [thread for thread, _ in found] == threads + threads[::-1]
    clients = [client for _, client in found]
    assert len(set(clients[:6])) == 6
    assert clients[6:] == clients[5::-1]


def test_conversions_are_spread_over_threads_and_changes_of_topics_have_their_own(
    tmp_path: Path,
) -> None:
    """A client that has moved because of its conversions moves again for a change."""
    with (
        broker_of(tmp_path, {TOPIC: {0: [batch(0, size=100 * KiB)]}}) as broker,
        serving_broker(broker, converting_threads=2) as server,
        ExitStack() as stack,
    ):
        found = noted(broker, ApiKey.Fetch, ApiKey.CreateTopics)
        talks = [stack.enter_context(Talk(server.address)) for _ in range(4)]
        for _ in range(2):
            for talk in talks:
                talk.ask(ApiKey.Fetch, 2, fetch())
        for talk in (*talks, stack.enter_context(Talk(server.address))):
            talk.ask(ApiKey.CreateTopics, 0, EMPTY)
    names = [thread for thread, _ in found]
    assert names[:4] == ["network-0"] * 4
    assert names[4:8] == ["converting-0", "converting-1"] * 2
    assert names[8:] == ["administration"] * 5


def test_a_request_that_moves_to_another_thread_during_the_stop_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads that connections move to are stopped after those that they come from."""
    with serving(tmp_path, limits=Limits(stop=SECONDS)) as server:
        moves, may_move = threading.Event(), threading.Event()

        def converts(_frame: memoryview) -> bool:
            moves.set()
            assert may_move.wait(SECONDS)
            return True

        monkeypatch.setattr(server.broker, "takes_long", converts)
        with Talk(server.address) as talk:
            partition = Message(index=0, records=b"")
            topics = [Message(name=TOPIC, partition_data=[partition])]
            talk.send(ApiKey.Produce, 2, Message(acks=1, timeout_ms=1, topic_data=topics))
            assert moves.wait(SECONDS)
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            wait_for(lambda: not server.is_alive)
            time.sleep(0.2)  # until other threads would have ended
            may_move.set()
            assert TOPIC.encode() in talk.receive()
            stopping.join()


def test_a_fetch_that_waits_in_a_converting_thread_is_answered_during_the_stop(
    tmp_path: Path,
) -> None:
    """The thread that kept the time has ended by then."""
    with (
        broker_of(tmp_path, {TOPIC: {0: [batch(0, size=100 * KiB)]}}) as broker,
        serving_broker(broker, limits=Limits(stop=SECONDS)) as server,
        Talk(server.address) as talk,
    ):
        found = noted(broker, ApiKey.Fetch)
        for _ in range(2):
            talk.ask(ApiKey.Fetch, 2, fetch())
        talk.send(ApiKey.Fetch, 2, fetch(offset=1, wait=1_000))
        wait_for(lambda: len(broker.purgatory) == 1)
        started = time.monotonic()
        server.stop()
        assert talk.receive()
        assert time.monotonic() - started < SECONDS / 2
    assert [thread for thread, _ in found] == ["network-0", "converting-0", "converting-0"]


@pytest.mark.parametrize(
    ("request_size", "users", "most"),
    [
        (1 << 20, {"alice": "wonderland"}, REQUEST_SIZE_MAX),
        (5_000, {"alice": "wonderland"}, 5_000),
        (2 * REQUEST_SIZE_MAX, None, 2 * REQUEST_SIZE_MAX),
    ],
)
def test_a_client_that_has_to_log_in_first_sends_no_large_request(
    tmp_path: Path, request_size: int, users: dict[str, str] | None, most: int
) -> None:
    with serving(tmp_path, limits=Limits(request_size=request_size)) as server:
        if users is not None:
            server.broker.guard = guard_of(users)
        with Talk(server.address, seconds=0.5) as talk, Talk(server.address) as other:
            other.socket.sendall((most + 1).to_bytes(4))
            assert other.has_ended()
            talk.socket.sendall(most.to_bytes(4))
            with pytest.raises(TimeoutError):
                talk.socket.recv(1)


class Failing:
    """A TLS context that cannot take a connection."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def wrap_socket(self, *_: object, **__: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "is_logged"), [(OSError(107, "it has gone"), False), (ValueError("a defect"), True)]
)
def test_a_connection_that_cannot_be_taken_is_closed_and_leaves_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, is_logged: bool
) -> None:
    """Only a defect is logged."""
    with serving(tmp_path, limits=Limits(connections=2)) as server:
        failing: Any = Failing(error)
        server.tls = failing
        for _ in range(4):
            with Talk(server.address) as talk:
                assert talk.has_ended()
        server.tls = None
        wait_for(lambda: len(server.places) == 0)
        with Talk(server.address) as one, Talk(server.address) as other:
            assert one.is_served()
            assert other.is_served()
    errors = [line for line in caplog.records if line.levelno >= logging.ERROR]
    assert bool(errors) is is_logged


ENDED = "downconvert_broker_connections_ended_total"


def test_a_client_of_another_network_is_refused_and_counted(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.broker.guard = guard_of(None, Access(networks=(ip_network("127.0.0.2"),)))
        with Talk(server.address) as talk, Talk(server.address, source="127.0.0.2") as other:
            assert talk.has_ended()
            assert other.is_served()
        value = server.broker.metrics.registry.get_sample_value
        assert value(ENDED, {"reason": "refused"}) == 1
        wait_for(lambda: len(server.places) == 0)


@pytest.mark.parametrize(("total", "of_one"), [(3, 2), (2, 3)])
def test_places_are_limited_in_total_and_for_each_address(
    tmp_path: Path, total: int, of_one: int
) -> None:
    limits = Limits(connections=total, connections_per_address=of_one)
    with serving(tmp_path, limits=limits) as server, ExitStack() as stack:
        talks = [stack.enter_context(Talk(server.address)) for _ in range(2)]
        assert all(talk.is_served() for talk in talks)
        third = stack.enter_context(Talk(server.address))
        assert third.has_ended()
        other = stack.enter_context(Talk(server.address, source="127.0.0.2"))
        if total > of_one:
            assert other.is_served()
        else:
            assert other.has_ended()


def test_clients_that_have_not_logged_in_lose_their_places_in_any_thread(tmp_path: Path) -> None:
    limits = Limits(connections=2)
    with serving(tmp_path, limits=limits, network_threads=2) as server, ExitStack() as stack:
        server.broker.guard = guard_of({"alice": "wonderland"})
        talks = []
        for _ in range(6):
            talks.append(stack.enter_context(Talk(server.address)))
            assert talks[-1].is_served()  # it may ask for versions
        assert all(talk.has_ended() for talk in talks[:4])
        assert all(talk.is_served() for talk in talks[4:])


def test_a_client_of_a_network_with_a_rule_need_not_log_in(tmp_path: Path) -> None:
    trusted = ClientRule(access=Access(), credentials=None, networks=(ip_network("127.0.0.2"),))
    identities = Identities(users=Users({"alice": "wonderland"}), rules=(trusted,))
    with serving(tmp_path) as server:
        server.broker.guard = Guard(identities=identities)
        with Talk(server.address) as talk, Talk(server.address, source="127.0.0.2") as other:
            assert fetched(other)
            talk.send(ApiKey.Fetch, 2, fetch())
            assert talk.has_ended()
        with Talk(server.address, source="127.0.0.2", seconds=0.5) as large:
            large.socket.sendall((REQUEST_SIZE_MAX + 1).to_bytes(4))
            with pytest.raises(TimeoutError):
                large.socket.recv(1)


@pytest.mark.parametrize("cleans_up", [True, False])
def test_a_server_that_has_stopped_leaves_no_thread(tmp_path: Path, cleans_up: bool) -> None:
    """Only a server that cleans up has a thread for that."""
    before = set(threading.enumerate())
    with writable_broker(tmp_path, cleans_up=cleans_up) as broker, serving_broker(broker):
        names = {thread.name for thread in set(threading.enumerate()) - before}
        kinds = {"acceptor", "administration", "network-0", "converting-0", "converting-1"}
        assert names == kinds | ({"maintenance"} if cleans_up else set())
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("ended", range(4))
def test_a_server_is_not_alive_once_one_of_its_threads_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int
) -> None:
    with serving(tmp_path) as server:
        assert server.is_alive
        threads = count()
        monkeypatch.setattr(NetworkThread, "is_alive", lambda _: next(threads) != ended)
        assert not server.is_alive
        monkeypatch.undo()
        assert server.is_alive


def test_a_server_is_not_ready_while_there_are_no_keys_of_tokens(tmp_path: Path) -> None:
    tokens = Tokens(TokenSettings(jwks=str(tmp_path / "none.json"), issuer="i", audience=("a",)))
    tokens.source.renew()
    with serving(tmp_path) as server:
        assert server.unready() == []
        server.broker.guard = Guard(identities=Identities(tokens=tokens))
        (reason,) = server.unready()
        assert reason == f"the keys of tokens: {tokens.failure}"


def test_work_of_every_second_keeps_no_client_waiting(tmp_path: Path) -> None:
    """It is done in a converting thread."""
    ticks: list[str] = []
    with serving(tmp_path, on_tick=lambda _: ticks.append(threading.current_thread().name)):
        wait_for(lambda: bool(ticks))
    assert set(ticks) == {"converting-0"}


def test_lines_that_were_left_out_are_counted_at_the_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_of(__name__)
    with serving(tmp_path) as server:
        now = server.clock()
        for number in range(3 * LINES_MAX):
            server.broker.lines.write(log, now, logging.WARNING, "kind", "line %d", number)
    assert f"more, the last one: line {3 * LINES_MAX - 1}" in caplog.text


def test_a_client_waits_while_there_are_too_many_open_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server takes it as soon as a file is closed, and says meanwhile what is wrong."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving(tmp_path) as server, ExitStack() as stack:
        talk = stack.enter_context(Talk(server.address))
        assert talk.is_served()
        waiting = stack.enter_context(socket.socket())
        waiting.settimeout(SECONDS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 1, hard))
        try:
            waiting.connect(server.address)
            wait_for(lambda: "a connection is not taken" in caplog.text)
            assert talk.is_served()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert eventually(lambda: Talk(server.address), lambda other: other.is_served())
        waiting.sendall(bytes(4))  # no request: the connection ends
        assert waiting.recv(1) == b""
    assert caplog.text.count("a connection is not taken") < 5
