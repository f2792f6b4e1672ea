"""How many Python functions each small request calls, at the most."""

from typing import Final

import pytest

from bench.request_calls import SERVED, Calls, measure
from downconvert.broker.network.epoll_selector import new_selector

CALLS_MAX: Final = {
    "Fetch v11 none": 54,
    "Fetch v11 lz4": 54,
    "Fetch v2 none": 82,
    "Fetch v2 lz4": 82,
    "ApiVersions": 30,
    "Metadata": 34,
    "Heartbeat": 39,
    "OffsetCommit": 66,
    "Produce": 52,
}


@pytest.fixture(scope="module")
def measured() -> dict[str, Calls]:
    return {found.request: found for found in measure()}


@pytest.mark.parametrize("kind", [kind.name for kind in SERVED])
def test_a_small_request_calls_few_functions(kind: str, measured: dict[str, Calls]) -> None:
    found = measured[kind]
    assert 0 < found.calls <= CALLS_MAX[kind], found.functions.most_common(30)


def test_the_calls_of_a_request_end_when_its_server_waits(measured: dict[str, Calls]) -> None:
    """They are in the order of their first calls, and the wait is called once."""
    wait = f"{type(new_selector()).__name__}.select"
    for found in measured.values():
        *_, (file, name) = found.functions
        assert (name, found.functions[file, name]) == (wait, 1)
