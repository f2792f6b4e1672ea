"""A simulated broker's way to a leader that it follows: one request at a time, and again.

Not here: what is asked and what becomes of the answers
(downconvert/broker/replication/follower.py)."""

from typing import TYPE_CHECKING, Final

from downconvert.broker import BadRequestError
from downconvert.broker.replication.follower import Follower

from .network import Connection

if TYPE_CHECKING:
    from .cluster import Cluster
    from .node import Node

FETCH_TIMEOUT: Final = 1.5  # seconds


class Link:
    """The connection to a leader that is followed: one request at a time."""

    def __init__(self, node: "Node", cluster: "Cluster", follower: Follower) -> None:
        self._node = node
        self._cluster = cluster
        self._follower = follower
        self._connection: Connection | None = None
        self._requests = 0
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def go_on(self) -> None:
        if self._is_closed:
            return
        timeline, node = self._cluster.timeline, self._node
        request = self._follower.request(timeline.now)
        if request is None:
            node.later(0.25, self.go_on)
            return
        if self._connection is None or self._connection.is_closed:
            self._connection = self._cluster.network.connect(
                node.host,
                self._cluster.nodes[self._follower.leader],
                lambda data, _tag: node.run(lambda: self._answered(data)),
                lambda: node.run(self._lost),
            )
        self._requests += 1
        number = self._requests
        self._connection.send(request)
        node.later(FETCH_TIMEOUT, lambda: self._timed_out(number))

    def _answered(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._requests += 1
        try:
            self._follower.response(memoryview(data), self._cluster.timeline.now)
        except BadRequestError:
            self._drop()
        self.go_on()

    def _timed_out(self, number: int) -> None:
        if number == self._requests:
            self._lost()

    def _lost(self) -> None:
        if self._is_closed:
            return
        self._drop()
        self._requests += 1
        number = self._requests
        self._node.later(0.1, lambda: self.go_on() if number == self._requests else None)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
