"""Simulated time and network: the order of events, and lost data."""

from random import Random
from typing import Any, cast

import pytest

from simulator.cluster.network import LATENCY, Connection, Network
from simulator.cluster.node import Node
from simulator.cluster.timeline import Timeline

HOST = "client"


class Machine:
    """The target of connections. It keeps received data."""

    host = "broker-0"

    def __init__(self) -> None:
        self.life = 1
        self.is_up = True
        self.connections: set[Connection] = set()
        self.received: list[bytes] = []

    def receive(self, _connection: Connection, data: bytes) -> None:
        self.received.append(data)


class Ends:
    """Both ends of one connection."""

    def __init__(self, seed: int = 0) -> None:
        self.timeline = Timeline(100.0)
        self.network = Network(self.timeline, Random(seed))
        self.machine = Machine()
        self.heard: list[tuple[bytes, Any]] = []
        self.closed = 0
        self.connection = self.network.connect(
            HOST,
            cast(Node, self.machine),
            lambda data, tag: self.heard.append((data, tag)),
            self._close,
        )

    def _close(self) -> None:
        self.closed += 1

    def wait(self, seconds: float = 10.0) -> None:
        self.timeline.run_until(self.timeline.now + seconds)


@pytest.fixture
def ends() -> Ends:
    return Ends()


def test_events_happen_in_order_and_ties_in_insertion_order() -> None:
    timeline, happened = Timeline(5.0), list[str]()
    timeline.after(2, lambda: happened.append("late"))
    timeline.at(6, lambda: happened.append("first"))
    timeline.at(6, lambda: happened.append("second"))
    timeline.at(1, lambda: happened.append("now"))
    timeline.run_until(6.5)
    assert (happened, timeline.now, len(timeline)) == (["now", "first", "second"], 6.5, 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_connection_keeps_its_order(seed: int) -> None:
    ends = Ends(seed)
    ends.network.slow_down(HOST, "broker-0", 5.0, 3.0)
    messages = [b"%d" % n for n in range(10)]
    for message in messages:
        ends.connection.send(message)
        ends.connection.reply(message, None)
    ends.wait(60)
    assert ends.machine.received == messages
    assert [data for data, _ in ends.heard] == messages


@pytest.mark.parametrize("seed", range(5))
def test_connections_have_even_speed_after_faults_end(seed: int) -> None:
    ends = Ends(seed)
    ends.network.is_uneven = True
    connections = [
        ends.network.connect(HOST, cast(Node, ends.machine), lambda *_: None, lambda: None)
        for _ in range(30)
    ]

    def seconds() -> float:
        """The seconds until the slowest connection has carried something."""
        ends.machine.received.clear()
        start = ends.timeline.now
        for connection in connections:
            connection.send(b"request")
        while len(ends.machine.received) < len(connections):
            ends.timeline.run_until(ends.timeline.now + 0.001)
        return ends.timeline.now - start

    assert seconds() > 5 * LATENCY[1]
    ends.network.heal()
    assert seconds() <= LATENCY[1] + 0.001


def test_lost_data_breaks_a_connection_silently(ends: Ends) -> None:
    ends.network.cut(HOST, "broker-0", 1.0)
    ends.connection.send(b"lost")
    ends.wait()
    ends.connection.send(b"behind it")
    ends.wait()
    assert (ends.machine.received, ends.closed) == ([], 0)


def test_a_link_is_cut_for_a_while(ends: Ends) -> None:
    heard: list[str] = []
    ends.network.cut("a", "b", 1.0)
    ends.network.message("b", "a", lambda: heard.append("lost"))
    ends.wait(1.5)
    ends.network.message("b", "a", lambda: heard.append("there"))
    ends.wait()
    assert heard == ["there"]


def test_a_reset_is_noticed_unless_the_power_failed(ends: Ends) -> None:
    ends.connection.reset()
    ends.wait()
    assert (ends.closed, ends.connection.is_closed) == (1, True)
    dark = Ends()
    dark.connection.reset(silent=True)
    dark.wait()
    assert dark.closed == 0


def test_a_request_to_an_earlier_life_is_answered_by_a_reset(ends: Ends) -> None:
    ends.connection.send(b"late")
    ends.machine.life += 1
    ends.wait()
    assert (ends.machine.received, ends.closed) == ([], 1)


def test_a_client_that_has_given_up_gets_no_response(ends: Ends) -> None:
    ends.connection.reply(b"late", None)
    ends.connection.close()
    ends.wait()
    assert ends.heard == []
