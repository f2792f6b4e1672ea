"""One client's connection: what ends it, what is counted of it, and how long it is kept."""

import asyncio
import gc
import logging
import time
from contextlib import ExitStack

import pytest

from downconvert.access.identity import Users
from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.gateway.config import Limits
from downconvert.gateway.figures import Counters, End
from downconvert.gateway.identity import Identities
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.places import EVICTED
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.cluster import append
from tests.downconvert.gateway.hanging import Hanging
from tests.downconvert.gateway.serving import LENGTH, Wire, gateway
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

GROUP = Message(group_id="g", generation_id=1, member_id="m", topics=[])
NONE = Message(topics=[])
RATE = 1000.0  # bytes a second
LARGE = 50_000  # bytes of a record: its fetch mutes for 49 s


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "downconvert.gateway")
    return caplog


def ends(log: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The lines about connections that have ended."""
    return [one for one in log.records if " requests in " in one.getMessage()]


def framed(api: ApiKey, version: int, body: Message) -> bytes:
    data = frame(api, version, body)
    return LENGTH.pack(len(data)) + data


@pytest.mark.parametrize("excess", [0, 1])
def test_a_request_of_exactly_the_largest_size_is_served(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture, excess: int
) -> None:
    size = len(frame(ApiKey.Metadata, 1, NONE))
    limits = Limits(request_size=size - excess)
    with gateway(behind[1], limits=limits) as running, Wire(running.address) as client:
        client.send(ApiKey.Metadata, 1, NONE)
        if not excess:
            assert client.receive()
            return
        assert client.has_ended()
        wait_for(lambda: bool(ends(log)))
    assert (
        f": a request of {size} bytes; the limit is {size - excess} [bad_request"
        in ends(log)[0].getMessage()
    )


def test_a_request_without_a_byte_ends_the_connection_and_the_log_says_so(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture
) -> None:
    with gateway(behind[1]) as running, Wire(running.address) as client:
        client.socket.sendall(LENGTH.pack(0))
        assert client.has_ended()
        wait_for(lambda: bool(ends(log)))
    assert (
        ": a request of 0 bytes; the limit is 104857600 [bad_request after 0 "
        in ends(log)[0].getMessage()
    )


def test_every_request_and_byte_is_counted_however_it_is_handled(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture
) -> None:
    """Read, passed on, translated, repeated, in pieces, and without a response."""
    broker, port = behind
    append(broker, batch(0, size=3000), batch(1, size=200_000))
    asked = [
        *[(ApiKey.Metadata, 1, NONE)] * 2,
        *[(ApiKey.Heartbeat, 3, GROUP)] * 3,
        *[(ApiKey.Fetch, 2, fetch_body(0, max_bytes=3500))] * 4,
        *[(ApiKey.Fetch, 12, fetch_body(0))] * 3,
        (ApiKey.Fetch, 3, fetch_body(0)),
        (ApiKey.Produce, 0, produce_body(message_set(0, b"a"), acks=0)),
        (ApiKey.Produce, 3, produce_body(message_set(2, b"a"), acks=0)),
        (ApiKey.Metadata, 1, NONE),
    ]
    received = 0
    with gateway(port) as running:
        with Wire(running.address) as client:
            for api, version, body in asked:
                received += len(framed(api, version, body))
                client.send(api, version, body)
                if api is not ApiKey.Produce:
                    client.receive()
        wait_for(lambda: bool(ends(log)))
        served = running.figures().served[""]
    assert ends(log)[0].fields["requests"] == len(asked)  # type: ignore[attr-defined]
    assert (served.received, served.sent) == (received, client.received)
    counts = {api: sum(one.counts) for api, one in served.latencies.items()}
    assert counts == {"Metadata": 3, "Heartbeat": 3, "Fetch": 8, "Produce": 2}
    assert all(0 < one.seconds < 60 for one in served.latencies.values())


def test_a_place_is_free_once_the_end_of_its_connection_is_logged_and_counted(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a thread that sees the free place sees the counts, too."""
    count, found = Counters.connection_ended, list[tuple[int, int]]()

    def note(counters: Counters, reason: str) -> None:
        found.append((len(running.places), len(ends(log))))
        count(counters, reason)

    monkeypatch.setattr(Counters, "connection_ended", note)
    with gateway(behind[1]) as running:
        with Wire(running.address) as client:
            client.ask(ApiKey.Metadata, 1, NONE)
        wait_for(lambda: not running.places)
    assert found == [(1, 1)]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (3, 2)])
def test_a_produce_without_a_response_counts_towards_its_clients_rate(
    behind: tuple[Broker, int], version: int, magic: int
) -> None:
    access = Access(producer_byte_rate=RATE)
    with gateway(behind[1], access=access) as running, Wire(running.address) as client:
        body = produce_body(message_set(magic, bytes(LARGE)), acks=0)
        client.send(ApiKey.Produce, version, body)
        wait_for(lambda: running.figures().throttled.get("Produce", 0.0) > LARGE / RATE - 2)


def test_a_gateway_ends_as_soon_as_a_forwarded_request_is_answered(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture
) -> None:
    """It waits for no other request of that client."""
    broker, port = behind
    append(broker, batch(0))
    limits = Limits(drain_timeout=20.0)
    with gateway(port, limits=limits) as running, Wire(running.address) as client:
        client.ask(ApiKey.Fetch, 12, fetch_body(0))  # the next one of its kind is forwarded
        client.send(ApiKey.Fetch, 12, fetch_body(1, wait=500))
        wait_for(lambda: len(broker.purgatory) > 0)
        running.stop()
        assert client.receive()
        assert client.has_ended()
    (end,) = ends(log)
    assert ": the gateway is closing [" in end.getMessage()


@pytest.mark.parametrize("sends_more", [False, True])
@pytest.mark.parametrize("version", [1, 4])
def test_a_client_that_is_not_read_from_does_not_delay_the_end(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture, version: int, sends_more: bool
) -> None:
    broker, port = behind
    append(broker, batch(0, size=LARGE))
    limits, access = Limits(drain_timeout=3.0), Access(consumer_byte_rate=RATE)
    with gateway(port, limits=limits, access=access) as running, Wire(running.address) as client:
        client.ask(ApiKey.Fetch, version, fetch_body(0))
        if sends_more:
            client.send(ApiKey.Metadata, 1, NONE)
        wait_for(lambda: "Fetch" in running.figures().latencies)
        started = time.monotonic()
        running.stop()
        assert time.monotonic() - started < limits.drain_timeout
        assert client.has_ended()
    assert ": the gateway is closing [" in ends(log)[0].getMessage()


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (3, 2)])
def test_a_client_that_leaves_before_it_is_muted_has_left(
    behind: tuple[Broker, int], version: int, magic: int
) -> None:
    access = Access(producer_byte_rate=RATE)
    with gateway(behind[1], access=access) as running:
        with Wire(running.address) as client:
            body = produce_body(message_set(magic, bytes(LARGE)), acks=0)
            client.send(ApiKey.Produce, version, body)
        wait_for(lambda: "Produce" in running.figures().throttled)
        wait_for(lambda: not running.places)


def test_a_client_hears_of_its_brokers_end_while_it_is_not_read_from(
    behind: tuple[Broker, int],
) -> None:
    broker, port = behind
    append(broker, batch(0, size=LARGE))
    access = Access(consumer_byte_rate=RATE)
    with (
        Hanging(port) as between,
        gateway(between.port, access=access) as running,
        Wire(running.address) as client,
    ):
        client.ask(ApiKey.Fetch, 4, fetch_body(0))
        wait_for(lambda: "Fetch" in running.figures().latencies)
        between.drop()
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.CLUSTER] == 1)


def test_a_client_hears_of_its_brokers_end_once_it_has_read_the_response(
    behind: tuple[Broker, int],
) -> None:
    """The broker closes while the client still reads what it answered before."""
    append(behind[0], batch(0, size=20_000_000))
    with (
        Hanging(behind[1]) as between,
        gateway(between.port) as running,
        Wire(running.address) as client,
    ):
        client.send(ApiKey.Fetch, 3, fetch_body(0, max_bytes=1 << 25))
        size = LENGTH.unpack(client.take(LENGTH.size))[0]
        between.drop()
        wait_for(lambda: not between.open)
        client.take(size)
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.CLUSTER] == 1)


@pytest.mark.parametrize("has_time", [True, False])
@pytest.mark.parametrize("version", [3, 12])
def test_a_client_may_read_slowly_for_as_long_as_it_may_be_idle(
    behind: tuple[Broker, int], version: int, has_time: bool
) -> None:
    """The limits of other waits do not matter."""
    broker, port = behind
    append(broker, *(batch(offset, size=200_000) for offset in range(100)))
    limits = Limits(
        idle_timeout=60.0 if has_time else 1.5,
        request_timeout=1.5 if has_time else 200.0,
        receive_timeout=1.5 if has_time else 200.0,
    )
    with (
        gateway(port, limits=limits) as running,
        Wire(running.address) as client,
    ):
        client.ask(ApiKey.Fetch, version, fetch_body(99))
        client.send(ApiKey.Fetch, version, fetch_body(0, max_bytes=1 << 24))
        if has_time:
            time.sleep(2.0)  # nobody reads
            assert len(client.receive()) > 16_000_000
        else:
            wait_for(lambda: running.figures().ends.total() == 1)
            assert running.figures().ends[End.TIMEOUT] == 1


def test_a_request_that_does_not_arrive_whole_in_time_is_its_clients_end(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture
) -> None:
    limits = Limits(receive_timeout=0.2, idle_timeout=200.0, request_timeout=250.0)
    request = framed(ApiKey.Produce, 0, produce_body(message_set(0, bytes(LARGE))))
    with gateway(behind[1], limits=limits) as running, Wire(running.address) as client:
        client.socket.sendall(request[:-1])
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.TIMEOUT] == 1)
    line = "Produce v0 of client id 'test': it has not arrived whole in time [timed_out after 0 "
    assert f": {line}" in ends(log)[0].getMessage()


@pytest.mark.parametrize("sent", [1, 3, 4, 5, 12])
def test_the_beginning_of_a_request_has_the_time_of_a_whole_one(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture, sent: int
) -> None:
    """No other limit applies to it, however few of its bytes arrive."""
    limits = Limits(receive_timeout=0.2, idle_timeout=200.0, request_timeout=250.0)
    with gateway(behind[1], limits=limits) as running, Wire(running.address) as client:
        client.ask(ApiKey.Metadata, 1, NONE)
        client.socket.sendall(framed(ApiKey.Metadata, 1, NONE)[:sent])
        client.socket.settimeout(60.0)
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.TIMEOUT] == 1)
    assert ": no whole request within 0.2 s [timed_out after 1 " in ends(log)[0].getMessage()


@pytest.mark.parametrize("requests", [0, 1])
def test_the_log_says_how_long_an_idle_client_was_silent(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture, requests: int
) -> None:
    limits = Limits(idle_timeout=0.2)
    with gateway(behind[1], limits=limits) as running, Wire(running.address) as client:
        for _ in range(requests):
            client.ask(ApiKey.Metadata, 1, NONE)
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.TIMEOUT] == 1)
    assert f": nothing for 0.2 s [timed_out after {requests} " in ends(log)[0].getMessage()


def test_the_log_says_that_a_place_went_to_another_client(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture
) -> None:
    identities = Identities(users=Users({"ann": "secret"}))
    limits = Limits(connections=1)
    with (
        gateway(behind[1], identities=identities, limits=limits) as running,
        Wire(running.address) as first,
    ):
        wait_for(lambda: running.topology.api_versions is not None)
        first.ask(ApiKey.ApiVersions, 0, Message())
        with Wire(running.address) as second:
            assert first.has_ended()
            second.ask(ApiKey.ApiVersions, 0, Message())
        wait_for(lambda: running.figures().ends.total() == 2)
        assert running.figures().ends[End.REFUSED] == 1
    assert f": {EVICTED} [refused after 1 " in ends(log)[0].getMessage()


def test_error_codes_are_counted_and_codes_of_success_are_not(behind: tuple[Broker, int]) -> None:
    """Latencies of responses, and of old fetches that a task, a callback or both translate."""
    body = fetch_body(0, 0, 0)
    with gateway(behind[1]) as running, Wire(running.address) as client:
        for version in (1, 2, 2, 4):
            client.ask(ApiKey.Fetch, version, body)
        client.ask(ApiKey.Produce, 1, produce_body(message_set(0, b"a"), partition=7))
        client.ask(ApiKey.Fetch, 3, fetch_body(0))
        wait_for(lambda: running.figures().errors == {("Fetch", 3): 8, ("Produce", 3): 1})


def test_a_failed_login_is_answered_and_then_ends(
    behind: tuple[Broker, int], log: pytest.LogCaptureFixture
) -> None:
    identities = Identities(users=Users({"ann": "secret"}))
    with gateway(behind[1], identities=identities) as running, Wire(running.address) as client:
        client.ask(ApiKey.SaslHandshake, 1, Message(mechanism="PLAIN"))
        body = Message(auth_bytes=b"\0ann\0wrong")
        assert client.ask(ApiKey.SaslAuthenticate, 0, body).error_code == 58
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.LOGIN] == 1)
    assert "[failed_login after 1 " in ends(log)[0].getMessage()


def tasks() -> int:
    return sum(isinstance(one, asyncio.Task) and not one.done() for one in gc.get_objects())


@pytest.mark.parametrize("version", [2, 12])
def test_an_idle_client_has_no_task(behind: tuple[Broker, int], version: int) -> None:
    """Neither before its first request nor after the last one, nor while requests pass."""
    with gateway(behind[1]) as running, ExitStack() as stack:
        wait_for(lambda: running.cluster_failure is None)
        before = tasks()
        clients = [stack.enter_context(Wire(running.address)) for _ in range(5)]
        wait_for(lambda: len(running.connections) == len(clients))
        wait_for(lambda: tasks() <= before)  # one of the gateway itself may have begun meanwhile
        for _ in range(3):
            for client in clients:
                client.ask(ApiKey.Metadata, 1, NONE)
                client.ask(ApiKey.Fetch, version, fetch_body(0))
        wait_for(lambda: tasks() <= before)
        for client in clients:
            client.socket.close()
        wait_for(lambda: not running.connections)
        assert running.figures().ends == {End.CLIENT: len(clients)}
