"""Exchanges that a connection's task runs: their waits, and their counts."""

import time
from threading import current_thread

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.gateway.config import Limits
from downconvert.gateway.figures import End
from downconvert.gateway.network.conversion_pool import NAME
from downconvert.gateway.session.exchanges import TURN, Ask, HangUp, Steps
from downconvert.gateway.session.headers import parse
from downconvert.gateway.session.session import Session
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.gateway.cluster import append
from tests.downconvert.gateway.hanging import Hanging
from tests.downconvert.gateway.serving import Wire, gateway
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body, records_of
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

REQUEST_TIMEOUT, WAIT = 1.0, 1.5  # seconds; a busy machine stands still for some tenths


@pytest.mark.parametrize("version", [1, 3, 4, 9, 12])
def test_the_first_request_of_a_connection_may_wait_for_its_own_time(
    behind: tuple[Broker, int], version: int
) -> None:
    """It is added to the time that every response may take."""
    limits = Limits(request_timeout=REQUEST_TIMEOUT)
    with gateway(behind[1], limits=limits) as running, Wire(running.address) as client:
        started = time.monotonic()
        response = client.ask(ApiKey.Fetch, version, fetch_body(0, wait=int(WAIT * 1000)))
        assert response.responses[0].partitions[0].error_code == 0
        assert time.monotonic() - started > WAIT - 0.1


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("size", [10, 60_000])
def test_conversions_of_large_and_small_responses_are_counted(
    behind: tuple[Broker, int], is_first: bool, size: int
) -> None:
    broker, port = behind
    append(broker, *(batch(offset, size=size) for offset in range(5)))
    with gateway(port) as running, Wire(running.address) as client:
        if not is_first:
            client.ask(ApiKey.Produce, 0, produce_body(message_set(0, b"a"), partition=9))
        (part,) = client.ask(ApiKey.Fetch, 2, fetch_body(0)).responses[0].partitions
        assert len(records_of(part)) == 5

        def counted() -> int:
            rows = running.census.rows()
            return sum(row["records_converted"] for row in rows if row["api"] == "Fetch")

        wait_for(lambda: counted() == 5)


@pytest.mark.parametrize("second", [1, 100_000])
def test_an_exchange_with_a_large_response_stays_with_a_thread(
    behind: tuple[Broker, int], monkeypatch: pytest.MonkeyPatch, second: int
) -> None:
    """The same holds if its last response is small: the conversion may still be that of the large
    one."""
    broker, port = behind
    append(broker, batch(0, size=100_000))
    steps: list[str] = []
    exchange = Session.exchange

    def twice(self: Session, frame: memoryview, size: int, now: float) -> Steps:
        if parse(frame).api is not ApiKey.Fetch:
            return (yield from exchange(self, frame, size, now))
        for size in (100_000, second):
            body = fetch_body(0 if size > 1 else 1, max_bytes=size)
            body.session_epoch = -1
            yield Ask(ApiKey.Fetch, 12, body)
            steps.append(current_thread().name)
        yield TURN
        steps.append(current_thread().name)
        return HangUp("it is over")

    monkeypatch.setattr(Session, "exchange", twice)
    with gateway(port) as running, Wire(running.address) as client:
        client.ask(ApiKey.ApiVersions, 0, Message())
        client.send(ApiKey.Fetch, 11, fetch_body(0))
        assert client.has_ended()
    assert len(steps) == 3
    assert all(name.startswith(NAME) for name in steps), steps


def test_requests_that_arrived_before_the_broker_closed_are_answered(
    behind: tuple[Broker, int],
) -> None:
    """Here one that needs no broker, of a client that is not read from for a while."""
    broker, port = behind
    append(broker, batch(0, size=50_000))
    access = Access(consumer_byte_rate=20_000.0)  # the client is muted for 1.5 s
    with (
        Hanging(port) as between,
        gateway(between.port, access=access) as running,
        Wire(running.address) as client,
    ):
        client.ask(ApiKey.ApiVersions, 0, Message())
        client.ask(ApiKey.Fetch, 4, fetch_body(0))
        client.send(ApiKey.ApiVersions, 0, Message())
        (connection,) = running.connections
        wait_for(lambda: connection.passing.queued_bytes > 0)
        between.drop()
        assert client.receive()
        assert client.has_ended()
        wait_for(lambda: running.figures().ends[End.CLUSTER] == 1)
