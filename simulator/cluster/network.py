"""A simulated network between clients, brokers and the controller.

A connection keeps the order of its data. There is no order between two connections. If the link
between two hosts is cut, data is lost and neither side is notified. A connection that lost data
carries nothing more until its client closes it.

Not here: the brokers' handling of requests (node.py), the times of cuts (faults.py)."""

from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol

from .timeline import Action, Timeline

LATENCY: Final = 0.001, 0.01  # seconds, from and to
Link = frozenset[str]  # two hosts


class Machine(Protocol):
    """The server side of connections: a host with a broker, which may die and be restarted.

    life: a number that changes with each death and each start. connections: the open ones of this
    life."""

    host: str
    life: int
    is_up: bool
    connections: "set[Connection]"

    def receive(self, connection: "Connection", data: bytes) -> None: ...


class Network:
    """The links between hosts, which are known by name."""

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self.timeline = timeline
        self.random = random
        self.is_uneven = False  # connections differ in speed
        self.stalls = 0.0  # how likely a response is to be delayed in a socket
        self._cut: dict[Link, float] = {}  # until when
        self._slow: dict[Link, tuple[float, float]] = {}  # until when, and the delay in seconds

    def cut(self, a: str, b: str, seconds: float) -> None:
        self._cut[frozenset({a, b})] = self.timeline.now + seconds

    def slow_down(self, a: str, b: str, seconds: float, by: float) -> None:
        self._slow[frozenset({a, b})] = self.timeline.now + seconds, by

    def heal(self) -> None:
        """Ends all faults, also for open connections. A connection that lost data stays broken,
        because neither side knows it yet."""
        self._cut.clear()
        self._slow.clear()
        self.is_uneven, self.stalls = False, 0.0

    def is_cut(self, a: str, b: str) -> bool:
        return self._cut.get(frozenset({a, b}), 0.0) > self.timeline.now

    def latency(self, a: str, b: str) -> float:
        until, by = self._slow.get(frozenset({a, b}), (0.0, 0.0))
        late = self.random.uniform(0, by) if until > self.timeline.now else 0.0
        return self.random.uniform(*LATENCY) + late

    def message(self, source: str, target: str, action: Action) -> None:
        """Runs an action at the target after the latency, without a connection. It may be lost."""
        if not self.is_cut(source, target):
            self.timeline.after(self.latency(source, target), action)

    def connect(
        self,
        host: str,
        node: Machine,
        on_response: Callable[[bytes, Any], None],
        on_close: Action,
    ) -> "Connection":
        return Connection(self, host, node, on_response, on_close)


class Connection:
    """A connection from a host to a broker, until the broker dies. `on_response` is called with a
    response without its length field, and the broker's state when the response was made."""

    def __init__(
        self,
        network: Network,
        host: str,
        node: Machine,
        on_response: Callable[[bytes, Any], None],
        on_close: Action,
    ) -> None:
        self.host = host
        self.node = node
        self.is_closed = False
        self._network = network
        self._life = node.life
        self._on_response = on_response
        self._on_close = on_close
        self._slowness = network.random.choice((1, 1, 5, 40)) if network.is_uneven else 1
        self._is_broken = False
        self._there = self._back = 0.0  # when the last data arrives
        node.connections.add(self)

    def listen(self, on_response: Callable[[bytes, Any], None], on_close: Action) -> None:
        """Replaces the callbacks."""
        self._on_response, self._on_close = on_response, on_close

    def send(self, data: bytes) -> None:
        """Sends a request to the broker, without its length field."""
        self._there = self._carry(self._there, lambda: self._arrive(data))

    def reply(self, data: bytes, tag: Any) -> None:
        """Sends a response to the client."""
        network = self._network
        if network.stalls and network.random.random() < network.stalls:
            self._back = max(self._back, network.timeline.now) + network.random.uniform(0, 2)
        self._back = self._carry(self._back, lambda: self._return(data, tag))

    def close(self) -> None:
        """Closes the client's end. Data that was sent before still arrives."""
        self.is_closed = True
        self.node.connections.discard(self)

    def reset(self, *, silent: bool = False) -> None:
        """Closes the broker's end. `silent`: the client is not notified."""
        if self.is_closed:
            return
        self.node.connections.discard(self)
        self._is_broken = True
        if not silent:
            delay = self._network.latency(self.host, self.node.host)
            self._network.timeline.after(delay, self._closed)

    def _carry(self, last: float, action: Action) -> float:
        network, node = self._network, self.node
        if self._is_broken or network.is_cut(self.host, node.host):
            self._is_broken = True
            return last
        slowness = self._slowness if network.is_uneven else 1
        arrival = network.timeline.now + slowness * network.latency(self.host, node.host)
        arrival = max(last, arrival)
        network.timeline.at(arrival, action)
        return arrival

    def _arrive(self, data: bytes) -> None:
        if self.node.life == self._life and self.node.is_up:
            self.node.receive(self, data)
        elif not self._is_broken:
            self.reset()

    def _return(self, data: bytes, tag: Any) -> None:
        if not self.is_closed and not self._is_broken:
            self._on_response(data, tag)

    def _closed(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._on_close()
