"""The maximum number of calls in the gateway for a fetch, and for a client that connects."""

from typing import Final

import pytest

from bench.servers.gateway_calls import CLIENT, measure, measure_small, per_fetch
from bench.serving import SHAPES
from downconvert.gateway.network import delivery

CALLS_MAX: Final = {"none-100": 930, "none-1000": 930, "lz4-100": 950, "lz4-1000": 970}
TURNS_MAX: Final = 5.0
SMALL_MAX: Final = {
    "Fetch v2 none": 75,
    "Fetch v2 lz4": 75,
    "Fetch v12 none": 30,
    "Fetch v12 lz4": 30,
    CLIENT: 346,
}
HAND_OVERS_MAX: Final = 1.2
ATTEMPTS: Final = 4


@pytest.mark.slow
def test_a_large_fetch_calls_few_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "WAIT_MS", 1_000)  # however busy the machine is
    for found, fetches in measure(SHAPES):
        counts = per_fetch(found, fetches)
        assert 0 < counts["calls"] <= CALLS_MAX[found.request], list(found.lines())[:30]
        assert 0 < counts["turns"] <= TURNS_MAX
        assert 0 < counts["hand-overs"] <= HAND_OVERS_MAX


def test_a_small_fetch_and_a_new_client_call_few_functions() -> None:
    left = dict(SMALL_MAX)
    for attempt in range(ATTEMPTS):  # a response that arrives in two pieces takes more calls
        for found in measure_small():
            assert found.calls > 0
            assert found.request in SMALL_MAX
            if found.calls <= SMALL_MAX[found.request]:
                left.pop(found.request, None)
            elif attempt == ATTEMPTS - 1 and found.request in left:
                raise AssertionError(found.request, found.calls, list(found.lines())[:30])
        if not left:
            return
    raise AssertionError(f"not measured: {left}")
