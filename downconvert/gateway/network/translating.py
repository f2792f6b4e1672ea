"""Translates an old fetch in the callbacks that receive it and its response.

An exchange translates a fetch. A repeated fetch needs only the saved results of the first exchange
(repeated.py). The connection's task takes over if a response is large, if conversion takes more
than a moment, or if the exchange does not end with a response.

Not here: when a translation begins (translated_fetches.py), how the task continues
(connection.py)."""

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from downconvert.gateway.network.sockets.streams import PIECE_SIZE
from downconvert.gateway.session.exchanges import Ask, Response, Step, Steps, Turn, advance, nothing
from downconvert.gateway.session.headers import Header, parse
from downconvert.gateway.session.repeated import (
    CORRELATION_AT,
    Answered,
    RepeatedFetch,
    offset_of,
)
from downconvert.gateway.session.sent import converts
from downconvert.gateway.session.spool import MEMORY_MAX, Spool
from downconvert.gateway.session.waiting import LONGEST
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import Message

from .delivery import INLINE_SECONDS, pieces
from .upstream import CORRELATION, LENGTH, Upstream


class Translation:
    """The translation of one request. `exchange`: begins the exchange, with the session's state at
    the request's arrival. `whole`: the request, with its length. `started`: the arrival time.
    `repeated`: saved results of such requests, if any. If they suffice, the exchange does not
    begin.

    `steps`: the exchange. `step`: the last value that it yielded or returned. `correlation_id`: of
    the current request to the cluster. `answered`: the client's response, if it needed no
    exchange."""

    __slots__ = (
        *("_exchange", "_known", "_whole", "answered", "correlation_id", "is_large", "repeated"),
        *("started", "step", "steps"),
    )

    def __init__(
        self,
        exchange: Callable[[], Steps],
        whole: memoryview,
        started: float,
        repeated: RepeatedFetch | None = None,
    ) -> None:
        self._exchange = exchange
        self._whole = whole
        self.started = started
        self.repeated = self._known = repeated
        self.answered: Answered | None = None
        self.steps: Steps
        self.step: Step
        self.correlation_id: int | None = None
        self.is_large = False  # whether the expected response is large

    @property
    def is_for_task(self) -> bool:
        """Whether the task must continue the translation."""
        return self.correlation_id is None or self.is_large

    @property
    def frame(self) -> memoryview:
        """The request, without its length."""
        return self._whole[LENGTH.size :]

    @property
    def header(self) -> Header:
        return parse(self.frame)

    @property
    def wait(self) -> float:
        """Seconds that the cluster may wait before it answers."""
        if self.repeated is not None:
            return self.repeated.wait
        body = self.step.body if isinstance(self.step, Ask) else None
        return min(max(getattr(body, "max_wait_ms", 0), 0) / 1000, LONGEST)

    def begin(self, upstream: Upstream) -> bool:
        """Asks the cluster. Returns whether it has been asked. Raises errors of the exchange and
        ConnectionEndedError."""
        if self.repeated is not None and upstream.stream.is_writable:
            self.correlation_id = upstream.next_id()
            upstream.stream.send(self.repeated.ask(self.correlation_id, offset_of(self._whole)))
            if self.repeated.is_large:
                self.begin_exchange()  # while the cluster works
            return True
        self.repeated, self.steps = None, self._exchange()
        return self._advance(nothing, upstream)

    def begin_exchange(self) -> None:
        """Begins the exchange if it has not begun. The cluster already has its request."""
        if self.repeated is not None:
            self.repeated, self.steps = None, self._exchange()
            self.step = advance(self.steps, nothing)
            assert isinstance(self.step, Ask)

    def is_small(self, size: int) -> bool:
        """Whether the cluster's response, of this many bytes after its length, is taken in one
        call."""
        self.is_large = not CORRELATION.size <= size <= min(MEMORY_MAX, PIECE_SIZE) - LENGTH.size
        if self._known is not None:
            self._known.is_large = self.is_large
        return not self.is_large

    def take(self, data: memoryview, upstream: Upstream) -> bool:
        """Takes the whole response, a frame. Returns whether the cluster has been asked again.
        Raises as `begin` does."""
        asked_id = self.correlation_id
        assert asked_id is not None
        if self.repeated is not None:
            (correlation_id,) = CORRELATION.unpack_from(self._whole, CORRELATION_AT)
            offset = offset_of(self._whole)
            self.answered = self.repeated.response(
                data, asked_id, correlation_id, offset, PIECE_SIZE
            )
            if self.answered is not None:
                self.correlation_id = None
                return False
            self.begin_exchange()
        assert isinstance(self.step, Ask)
        spool = Spool(len(data) - LENGTH.size)
        spool.write(data[LENGTH.size :])
        make_result: Callable[[], Message] = partial(self.step.response, spool, asked_id)
        return self._advance(make_result, upstream)

    def _advance(self, make_result: Callable[[], Any], upstream: Upstream) -> bool:
        until, self.correlation_id = perf_counter() + INLINE_SECONDS, None
        self.step = step = advance(self.steps, make_result)
        while isinstance(step, Turn) and perf_counter() < until:
            self.step = step = advance(self.steps, nothing)
        is_asked = isinstance(step, Ask) and step.body is not None and step.expects_response
        if is_asked and upstream.stream.is_writable:
            assert isinstance(step, Ask)
            self.correlation_id = upstream.write(step)
        return self.correlation_id is not None

    def whole_response(self) -> tuple[ResponseSend, memoryview] | None:
        """The client's response and its bytes, if it may be sent at once. None: the task sends
        it."""
        if not isinstance(self.step, Response) or self.step.ends is not None:
            return None
        send = self.step.send
        if send.size > PIECE_SIZE or converts(send):
            return None
        return send, next(pieces(send))
