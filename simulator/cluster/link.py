"""A simulated follower's connection to its leader: one request at a time, with retries.

Not here: the requests, and the handling of responses
(downconvert/broker/replication/follower.py)."""

from typing import Final, Protocol

from downconvert.broker import BadRequestError
from downconvert.broker.replication.follower import Follower

from .context import Context
from .network import Connection
from .timeline import Action

FETCH_TIMEOUT: Final = 1.5  # seconds


class Host(Protocol):
    """The machine of a follower. `run` and `later` do nothing once its broker has died."""

    host: str

    def run(self, action: Action) -> None: ...

    def later(self, seconds: float, action: Action) -> None: ...


class Link:
    """The connection to a followed leader: one request at a time."""

    def __init__(self, host: Host, context: Context, follower: Follower) -> None:
        self._host = host
        self._context = context
        self._follower = follower
        self._connection: Connection | None = None
        self._requests = 0
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def resume(self) -> None:
        if self._is_closed:
            return
        timeline, host = self._context.timeline, self._host
        request = self._follower.request(timeline.now)
        if request is None:
            host.later(0.25, self.resume)
            return
        if self._connection is None or self._connection.is_closed:
            self._connection = self._context.network.connect(
                host.host,
                self._context.machines[self._follower.leader],
                lambda data, _tag: host.run(lambda: self._answered(data)),
                lambda: host.run(self._lost),
            )
        self._requests += 1
        number = self._requests
        self._connection.send(request)
        host.later(FETCH_TIMEOUT, lambda: self._timed_out(number))

    def _answered(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._requests += 1
        try:
            self._follower.response(memoryview(data), self._context.timeline.now)
        except BadRequestError:
            self._drop()
        self.resume()

    def _timed_out(self, number: int) -> None:
        if number == self._requests:
            self._lost()

    def _lost(self) -> None:
        if self._is_closed:
            return
        self._drop()
        self._requests += 1
        number = self._requests
        self._host.later(0.1, lambda: self.resume() if number == self._requests else None)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
