"""How many Python functions each small request calls, at the most."""

from typing import Final

import pytest

from bench.request_calls import SERVED, Calls, measure

CALLS_MAX: Final = {
    "Fetch v11 none": 83,
    "Fetch v11 lz4": 83,
    "Fetch v2 none": 131,
    "Fetch v2 lz4": 131,
    "ApiVersions": 35,
    "Metadata": 43,
    "Heartbeat": 51,  # with four of the clock, which the one network thread keeps
    "OffsetCommit": 104,
    "Produce": 108,
}


@pytest.fixture(scope="module")
def measured() -> dict[str, Calls]:
    return {found.request: found for found in measure()}


@pytest.mark.parametrize("kind", [kind.name for kind in SERVED])
def test_a_small_request_calls_few_functions(kind: str, measured: dict[str, Calls]) -> None:
    found = measured[kind]
    assert 0 < found.calls <= CALLS_MAX[kind], found.functions.most_common(30)
