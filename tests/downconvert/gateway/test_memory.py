"""Slow consumers and large answers take bounded memory of the gateway's process."""

from bench.servers.gateway_memory import ANSWER_LIMIT, LIMIT, measure
from records.units import MiB


def test_slow_consumers_take_little_and_a_large_answer_nothing_that_shows() -> None:
    held = measure(consumers=100, answer=16 * MiB)
    assert held.by_consumer <= LIMIT
    assert held.by_answer <= ANSWER_LIMIT
