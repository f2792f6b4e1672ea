"""Exchanges that a connection's task runs: their waits, and their counts."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from downconvert.broker import Broker
from downconvert.gateway.config import Limits
from downconvert.protocol.schemas import ApiKey
from tests.downconvert.gateway.cluster import append
from tests.downconvert.gateway.serving import Wire, cluster, gateway
from tests.downconvert.gateway.talk import fetch_body, message_set, produce_body, records_of
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

REQUEST_TIMEOUT, WAIT = 0.2, 0.6


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[tuple[Broker, int]]:
    with cluster(tmp_path, "t") as found:
        yield found


@pytest.mark.parametrize("version", [1, 3, 4, 9, 12])
def test_the_first_request_of_a_connection_may_wait_for_its_own_time(
    behind: tuple[Broker, int], version: int
) -> None:
    """It is added to the time that every answer may take."""
    limits = Limits(request_timeout=REQUEST_TIMEOUT)
    with gateway(behind[1], limits=limits) as running, Wire(running.address) as client:
        started = time.monotonic()
        answer = client.ask(ApiKey.Fetch, version, fetch_body(0, wait=int(WAIT * 1000)))
        assert answer.responses[0].partitions[0].error_code == 0
        assert time.monotonic() - started > WAIT - 0.1


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("size", [10, 60_000])
def test_conversions_of_large_and_small_answers_are_counted(
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
