"""How many Python functions each small request calls, at the most."""

from typing import Final

import pytest

from bench.request_calls import SERVED, Calls, measure

CALLS_MAX: Final = {
    "Fetch v11 none": 95,
    "Fetch v11 lz4": 95,
    "Fetch v2 none": 170,
    "Fetch v2 lz4": 170,
    "ApiVersions": 45,
    "Metadata": 59,
    "Heartbeat": 74,
    "OffsetCommit": 131,  # with six of the clock, which the one network thread keeps
    "Produce": 123,
}


@pytest.fixture(scope="module")
def measured() -> dict[str, Calls]:
    return {found.request: found for found in measure()}


@pytest.mark.parametrize("kind", [kind.name for kind in SERVED])
def test_a_small_request_calls_few_functions(kind: str, measured: dict[str, Calls]) -> None:
    found = measured[kind]
    assert 0 < found.calls <= CALLS_MAX[kind], found.functions.most_common(30)
