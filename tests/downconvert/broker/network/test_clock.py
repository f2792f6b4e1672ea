import time

import pytest

from downconvert.broker.network.clock import Clock


def test_it_counts_from_the_systems_time_and_does_not_follow_when_that_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = {"time": 5000.0, "monotonic": 70.0}
    monkeypatch.setattr(time, "time", lambda: times["time"])
    monkeypatch.setattr(time, "monotonic", lambda: times["monotonic"])
    clock = Clock()
    assert (clock(), clock.shift()) == (5000.0, 0.0)
    times.update(time=5012.0, monotonic=73.0)
    assert (clock(), clock.shift()) == (5003.0, 9.0)
    times.update(time=4000.0)
    assert (clock(), clock.shift()) == (5003.0, -1003.0)
