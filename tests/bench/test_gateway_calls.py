"""The maximum number of calls in the gateway for a large fetch of an old client."""

from typing import Final

import pytest

from bench.gateway_calls import measure, per_fetch
from bench.serving import SHAPES
from downconvert.gateway.network import delivery

CALLS_MAX: Final = {"none-100": 930, "none-1000": 930, "lz4-100": 950, "lz4-1000": 970}
POLLS_MAX: Final = 7.0
HAND_OVERS_MAX: Final = 1.2


@pytest.mark.slow
def test_a_large_fetch_calls_few_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "WAIT_MS", 1_000)  # however busy the machine is
    for found, fetches in measure(SHAPES):
        counts = per_fetch(found, fetches)
        assert 0 < counts["calls"] <= CALLS_MAX[found.request], list(found.lines())[:30]
        assert 0 < counts["polls"] <= POLLS_MAX
        assert 0 < counts["hand-overs"] <= HAND_OVERS_MAX
