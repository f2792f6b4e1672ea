"""Slow consumers and large responses take bounded memory of the gateway's process."""

from bench.servers.gateway_memory import LIMIT, RESPONSE_LIMIT, measure
from records.units import MiB


def test_slow_consumers_take_little_and_a_large_response_nothing_that_shows() -> None:
    held = measure(consumers=100, response=16 * MiB)
    assert held.by_consumer <= LIMIT
    assert held.by_response <= RESPONSE_LIMIT
