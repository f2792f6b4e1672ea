"""A client's connection counts once, and each of its requests is charged to its rates."""

from collections.abc import Generator
from typing import Any

import pytest

from downconvert.access.rights import Access
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.session.census import ClientCensus
from downconvert.gateway.session.client_identity import FETCH, PRODUCE, ClientIdentity
from downconvert.gateway.session.exchanges import Pause
from downconvert.gateway.session.headers import Header
from downconvert.gateway.session.shared import Shared
from downconvert.gateway.topology import Address, Ports, Topology
from downconvert.protocol.schemas import ApiKey, schema

CLUSTER = Address("kafka", 9092)
NOW = 1000.0


def shared_of(**access: Any) -> Shared:
    config = GatewayConfig(bootstrap=(CLUSTER,), access=Access(**access))
    return Shared(config, Topology(config.bootstrap, Ports(20_000, {})), ClientCensus())


def identity(shared: Shared, address: str = "10.0.0.7") -> ClientIdentity:
    return ClientIdentity(shared, address, None)


def waits(steps: Generator[Pause, None, None]) -> list[float]:
    return [pause.seconds for pause in steps]


def is_admitted(shared: Shared) -> bool:
    one = identity(shared)
    waits(one.admit(NOW))
    if one.over_limit:
        return False
    one.release()
    return True


def test_a_connection_counts_once_and_until_it_ends() -> None:
    shared = shared_of(connections=2)
    first, second = identity(shared), identity(shared)
    for one in (first, first, second):
        waits(one.admit(NOW))
    assert not is_admitted(shared)
    first.release()
    first.release()
    assert is_admitted(shared)
    third = identity(shared)
    waits(third.admit(NOW))
    assert not is_admitted(shared)  # the second release was of nobody
    assert is_admitted(shared_of(connections=1))


def test_a_refused_connection_counts_for_nobody_even_if_it_is_asked_again() -> None:
    shared = shared_of(connections=1)
    first, refused = identity(shared), identity(shared)
    waits(first.admit(NOW))
    waits(refused.admit(NOW))
    first.release()
    waits(refused.admit(NOW))
    assert refused.over_limit == "it has 1 connections already"
    assert not refused.keeps_place
    assert is_admitted(shared)


def test_connections_that_come_too_fast_wait_once() -> None:
    shared = shared_of(connection_creation_rate=1.0)
    first, second = identity(shared), identity(shared)
    assert waits(first.admit(NOW)) == []
    assert waits(second.admit(NOW)) == [pytest.approx(1.0)]
    assert waits(second.admit(NOW)) == []
    assert waits(identity(shared, "10.0.0.8").admit(NOW)) == []


@pytest.mark.parametrize(
    ("api", "rates", "seconds"),
    [
        (PRODUCE, {"producer_byte_rate": 100}, 30 - 1),
        (PRODUCE, {"consumer_byte_rate": 100}, 0),
        (FETCH, {"consumer_byte_rate": 100}, 50 - 1),
        (FETCH, {"producer_byte_rate": 100}, 0),
        ("Metadata", {"producer_byte_rate": 100, "consumer_byte_rate": 100}, 0),
        ("Metadata", {"request_percentage": 5}, 40 - 1),
        # The longer time counts, whichever it is.
        (PRODUCE, {"producer_byte_rate": 100, "request_percentage": 5}, 40 - 1),
        (FETCH, {"consumer_byte_rate": 100, "request_percentage": 5}, 50 - 1),
        (FETCH, {"consumer_byte_rate": 100, "request_percentage": 500}, 50 - 1),
    ],
)
def test_each_request_is_charged_to_the_rates_of_its_kind(
    api: str, rates: dict[str, float], seconds: float
) -> None:
    """3,000 bytes come, 5,000 go, and the gateway works for 2 seconds. A second may be saved up."""
    one = identity(shared_of(**rates))
    assert one.charge(api, 3000, 5000, 2.0, NOW) == pytest.approx(seconds)


@pytest.mark.parametrize("version", [0, 1, 11, 12])
def test_a_throttle_time_is_where_kafkas_responses_have_its_field(version: int) -> None:
    rates = {"consumer_byte_rate": 5.0, "producer_byte_rate": 6.0}
    limited, free = identity(shared_of(**rates)), identity(shared_of())
    for api in (ApiKey.Fetch, ApiKey.Produce):
        (field,) = (
            one for one in schema(f"{api.name}Response").fields if one.name == "throttle_time_ms"
        )
        header = Header(int(api), version, 7, "c", api, 20)
        if api is ApiKey.Fetch:
            found = limited.throttle_field(header)
            assert (found is not None) is (version in field.versions)
            assert found is None or found.header_size == (5 if version >= 12 else 4)
            assert free.throttle_field(header) is None
            assert not limited.throttles_at_the_end(header)
        else:
            assert limited.throttles_at_the_end(header) is (version in field.versions)
            assert not free.throttles_at_the_end(header)
            assert limited.throttle_field(header) is None
