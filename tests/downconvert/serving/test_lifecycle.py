"""Everything that was started is stopped, whatever happens in between."""

import pytest

from downconvert.serving.lifecycle import Startable


class Lamp(Startable):
    def __init__(self) -> None:
        self.states: list[str] = []

    def start(self) -> None:
        self.states.append("on")

    def stop(self) -> None:
        self.states.append("off")


def test_a_with_starts_and_stops() -> None:
    with Lamp() as lamp:
        assert lamp.states == ["on"]
    assert lamp.states == ["on", "off"]


def test_it_stops_on_an_error_which_is_raised() -> None:
    lamp = Lamp()
    with pytest.raises(KeyError), lamp:
        raise KeyError
    assert lamp.states == ["on", "off"]
