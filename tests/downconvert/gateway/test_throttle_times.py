"""Responses to clients that are over their rate say so, and are what they are without one."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from downconvert.access.rights import Access
from downconvert.broker import Broker
from downconvert.gateway.server import Gateway
from downconvert.protocol.schemas import ApiKey, Message
from tests.downconvert.broker.asking import parsed
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.storage.logs import batch
from tests.waiting import wait_for

from .serving import Wire, cluster, gateway
from .talk import fetch_body, message_set, produce_body

RATE = 1000.0  # bytes a second
SIZE = 200_000  # of a record: a response that a pipe takes to the client


class Gateways(NamedTuple):
    """In front of one cluster: one whose clients have rates, and one whose clients have none."""

    limited: Gateway
    free: Gateway
    broker: Broker


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    rates = Access(producer_byte_rate=RATE, consumer_byte_rate=RATE)
    with ExitStack() as stack:
        broker, port = stack.enter_context(cluster(tmp_path_factory.mktemp("c"), "t", "u"))
        partition = broker.topics.partition("u", 0)
        assert partition is not None
        partition.log.writer.append(batch(0, size=SIZE))
        limited = stack.enter_context(gateway(port, access=rates))
        free = stack.enter_context(gateway(port))
        yield Gateways(limited, free, broker)


def responses(gateways: Gateways, api: ApiKey, version: int, body: Message) -> tuple[bytes, bytes]:
    """With a rate, and without one."""
    response = []
    for running in (gateways.limited, gateways.free):
        with Wire(running.address) as client:
            client.send(api, version, body)
            response.append(client.receive())
    return response[0], response[1]


def fetches(topic: str) -> Message:
    body = fetch_body(0)
    body.topics[0].topic = topic
    return body


@pytest.mark.parametrize("version", [1, 3, 4, 8, 11, 12])
def test_a_fetch_above_its_rate_has_the_throttle_time_in_its_response(
    gateways: Gateways, version: int
) -> None:
    """Converted or passed on, with a header that is flexible or not."""
    before = gateways.limited.figures().throttled.get("Fetch", 0.0)
    limited, free = responses(gateways, ApiKey.Fetch, version, fetches("u"))
    throttle_seconds = parsed(ApiKey.Fetch, version, limited).throttle_time_ms / 1000
    assert throttle_seconds > SIZE / RATE - 2
    assert gateways.limited.figures().throttled["Fetch"] - before == pytest.approx(
        throttle_seconds, abs=0.001
    )
    assert parsed(ApiKey.Fetch, version, free).throttle_time_ms == 0
    at = 9 if version >= 12 else 8  # behind the length, the correlation id, and tags
    assert limited[:at] + bytes(4) + limited[at + 4 :] == free
    assert len(free) > SIZE


def test_a_fetch_version_without_a_throttle_time_has_an_unchanged_response(
    gateways: Gateways,
) -> None:
    limited, free = responses(gateways, ApiKey.Fetch, 0, fetches("u"))
    assert limited == free


def test_a_muted_client_that_leaves_is_no_longer_counted(gateways: Gateways) -> None:
    """Its connection does not count until it would have been read from again."""
    with Wire(gateways.limited.address) as client:
        client.ask(ApiKey.Fetch, 4, fetches("u"))
        assert gateways.limited.figures().connections
    wait_for(lambda: gateways.limited.figures().connections == 0)


@pytest.mark.parametrize("version", [1, 2, 3, 8, 9])
def test_a_produce_above_its_rate_has_the_throttle_time_in_its_response(
    gateways: Gateways, version: int
) -> None:
    records = message_set({1: 0, 2: 1}.get(version, 2), b"v" * 5000)
    limited, free = responses(gateways, ApiKey.Produce, version, produce_body(records))
    throttle_seconds = parsed(ApiKey.Produce, version, limited)
    assert throttle_seconds.throttle_time_ms > 2000
    assert throttle_seconds.responses[0].partition_responses[0].error_code == 0
    assert parsed(ApiKey.Produce, version, free).throttle_time_ms == 0
    assert len(limited) == len(free)


@pytest.mark.parametrize("version", [1, 4])
def test_a_longer_throttle_time_of_the_cluster_is_passed_on(
    gateways: Gateways, version: int
) -> None:
    known, gateways.broker.guard = (
        gateways.broker.guard,
        guard_of(None, Access(consumer_byte_rate=RATE / 100)),
    )
    try:
        response = responses(gateways, ApiKey.Fetch, version, fetches("u"))
    finally:
        gateways.broker.guard = known
    for one in response:
        throttle_seconds = parsed(ApiKey.Fetch, version, one).throttle_time_ms / 1000
        assert throttle_seconds > SIZE / (RATE / 100) - 2
