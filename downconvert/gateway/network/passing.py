"""Forwards requests and responses unchanged, in the callback that receives them.

No task is woken for such a request, and it has no timer of its own: it moves the time-out of the
client's connection. A client may send further requests before the first is answered. They are
forwarded at once, and the broker answers them in order. If no other request is under way, an old
fetch is translated in callbacks, too (translated_fetches.py).

The connection's task takes over if a request must be examined, if a response is large (it is
spliced), or if the client does not read its responses.

Not here: which requests pass (passed_kind.py), handling of others (connection.py)."""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from downconvert.gateway.config import Limits
from downconvert.gateway.figures import Counters
from downconvert.gateway.network.sockets.ended import (
    ConnectionEndedError,
    SilentBrokerError,
    StalledError,
    UnreachableError,
)
from downconvert.gateway.network.sockets.splicing import WORTHWHILE, forward
from downconvert.gateway.network.sockets.streams import CLIENT, KEPT, Stream
from downconvert.gateway.session.client_identity import FETCH
from downconvert.gateway.session.passed_kind import PassedKind
from downconvert.gateway.session.session import Session
from downconvert.protocol.errors import BadRequestError
from records import RecordsError

from .translated_fetches import TranslatedFetches
from .translating import Translation
from .upstream import CORRELATION, LENGTH, RESPONSE_MAX, Upstream

REQUEST: Final = Struct(">i4si")  # length, API and version, correlation id
RESPONSE: Final = Struct(">ii")  # length, correlation id
RAISED: Final = Exception()  # in place of an error that the task has raised
UNANSWERED_MAX: Final = 32  # unanswered requests of one client
PART_MIN: Final = 4096  # bytes: smaller parts of a response wait for the rest

# A forwarded request without a response: correlation id, kind, arrival time, the seconds that the
# broker may wait, and the request's size in bytes.
Unanswered: TypeAlias = tuple[int, PassedKind, float, float, int]


class Passing:
    """The forwarded requests of one connection. `clock`: the time of day. `monotonic`: the event
    loop's time.

    `requests`: the number of answered requests."""

    __slots__ = (
        *("_client", "_clock", "_counters", "_failure", "_is_last", "_left"),
        *("_limits", "_monotonic", "_session", "_since", "_size", "_translated"),
        *("_unanswered", "_upstream", "_waits_for_client", "is_open", "requests"),
    )

    def __init__(
        self,
        client: Stream,
        session: Session,
        counters: Counters,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self.requests = 0
        self._client = client
        self._session = session
        self._counters = counters
        self._clock = clock
        self._monotonic = monotonic
        self._limits: Limits = session.shared.config.limits
        self._unanswered: list[Unanswered] = []  # a deque takes 700 bytes even if it is empty
        self._since = 0.0  # when the broker could begin to answer the first one
        self._left = 0  # missing bytes of a response that is partly sent
        self._size = 0  # of that response
        self.is_open = False  # whether requests may pass now
        self._is_last = False
        self._waits_for_client = False  # whether its queue is full
        self._failure: Exception | None = None
        self._translated = TranslatedFetches(session, counters)  # one, if none is passed
        self._upstream: Upstream | None = None
        client.on_arrival = self._take_requests

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return not self._unanswered and self._translated.current is None

    @property
    def queued_bytes(self) -> int:
        """Bytes received from either side that the other side has not taken yet."""
        streams = [self._client, *([] if self._upstream is None else [self._upstream.stream])]
        return sum(len(one.available) + one.transport.get_write_buffer_size() for one in streams)

    def reach(self, upstream: Upstream) -> None:
        """Sets the connection to the broker."""
        self._upstream = upstream
        upstream.stream.on_arrival = self._take_responses

    @property
    def has_client_gone(self) -> bool:
        """Whether the client has gone and no request of it is under way."""
        client = self._client
        return client.has_ended and not client.available and self.is_idle and not self._failure

    def finish(self) -> None:
        """Forwards no more requests. Those under way are still answered."""
        self._is_last = True
        self._client.wake()

    def broker_ended(self) -> None:
        """The broker closed while requests were under way."""
        assert self._upstream is not None
        self._fail(ConnectionEndedError(self._upstream.stream.peer))

    def open(self) -> None:
        """Forwards requests from now on."""
        self.is_open = not self._is_last
        self._client.deadline.limit = self._monotonic() + self._limits.idle_timeout

    async def run(self) -> Translation | None:
        """Forwards requests until the beginning of one that must be examined has arrived, or until
        `finish` is called. Returns a translation that the task must continue, if any.

        If it returns None and `is_open` is true, requests are forwarded without the task. Call
        `run` again when the client's stream wakes its reader.

        ConnectionEndedError, BadRequestError, TimeoutError, UnreachableError: no further request
        comes."""
        client = self._client
        if not self.is_open:
            self.open()
        is_parked = False
        try:
            client.unpark()
            client.offer_again()
            while self._failure is None:
                if self._waits_for_client:
                    await self._send_rest()
                elif (current := self._translated.current) is not None and current.is_for_task:
                    return self._translated.hand_over()
                elif self.is_idle and (client.available or self._is_last):
                    return None
                # No client reads the last response. Earlier requests must still reach the broker.
                elif client.has_ended and not client.available and len(self._unanswered) <= 1:
                    raise ConnectionEndedError(CLIENT)
                elif self._is_last:  # `finish` needs the task to end
                    await client.more(client.deadline.limit)
                else:
                    is_parked = True
                    return None
            raise self._taken_failure()
        except TimeoutError as error:
            if self.is_idle:
                raise
            raise self._overdue(error) from self._silence(error)
        finally:
            self.is_open = is_parked

    # --- requests

    def _take_requests(self, data: memoryview) -> int:
        """Forwards the received requests that can pass. Returns their size, or KEPT if they wait
        for a fetch that is under way."""
        if not self.is_open or self._is_last:
            return 0
        if self._translated.current is not None:
            return KEPT
        session, unanswered, upstream = self._session, self._unanswered, self._upstream
        if upstream is None or not upstream.stream.is_writable or self._failure is not None:
            return 0
        now, time, kinds = self._monotonic(), self._clock(), session.passed
        if session.identity.has_expired(time):
            return 0
        at, end, was_idle = 0, len(data), not unanswered
        while end - at >= REQUEST.size and len(unanswered) < UNANSWERED_MAX:
            size, kind, correlation_id = REQUEST.unpack_from(data, at)
            stop, known = at + LENGTH.size + size, kinds.get(kind)
            if known is None or stop > end:
                break
            body_at = at + REQUEST.size + len(known.rest)
            if body_at > stop or data[at + REQUEST.size : body_at] != known.rest:
                break
            wait = known.read_wait(data[body_at:stop])
            if wait is None:
                break
            session.shared.census.count_again(known.client, time, translated=False)
            unanswered.append((correlation_id, known, now, wait, stop - at))
            at = stop
        if not at:
            return self._translate(upstream, data, now, time) if was_idle else 0
        session.client_id = unanswered[-1][1].client_id
        if was_idle:
            self._expect(now, unanswered[0][3])
        try:
            upstream.stream.send(data[:at])
        except ConnectionEndedError as error:
            self._fail(error)
        return at

    def _translate(self, upstream: Upstream, data: memoryview, now: float, time: float) -> int:
        """Begins to translate an old fetch. Returns its size, or 0 if the task must handle it."""
        size = 0 if self._waits_for_client else self._translated.size_of(data)
        if size:
            try:
                if self._translated.begin(data[:size], upstream, now, time):
                    self._expect(now, self._wait())
                else:
                    self._client.wake()
            except Exception as error:
                self._fail(error)
        return size

    def _wait(self) -> float:
        """Seconds that the broker may wait before it answers the first request."""
        current = self._translated.current
        return self._unanswered[0][3] if current is None else current.wait

    def _expect(self, now: float, wait: float) -> None:
        """The broker can answer the first request from now on: moves the time-out. `wait`: seconds
        that the broker may wait before."""
        self._since = now
        self._client.deadline.move(now + self._limits.request_timeout + wait)

    # --- responses

    def _take_responses(self, data: memoryview) -> int:
        """Sends received bytes to the client if possible. Returns how many were taken."""
        unanswered = self._unanswered
        if self._waits_for_client or self._failure is not None:
            return 0
        now, end = self._monotonic(), len(data)
        if (translation := self._translated.current) is not None:
            return self._take_response(translation, data, now)
        at = min(self._left, end)
        if at:
            self._left -= at
            if not self._left:
                self._answered(now)
        while unanswered and not self._left and end - at >= RESPONSE.size:
            size, correlation_id = RESPONSE.unpack_from(data, at)
            stop = at + LENGTH.size + size
            if not CORRELATION.size <= size <= RESPONSE_MAX:
                self._fail(
                    BadRequestError(
                        f"the cluster claims a response of {size} bytes; "
                        f"the limit is {RESPONSE_MAX}"
                    )
                )
                break
            if correlation_id != unanswered[0][0]:
                self._fail(BadRequestError("the cluster answered another request"))
                break
            if stop > end and end - at < PART_MIN:  # more comes soon: send both together
                self._client.deadline.move(now + self._limits.request_timeout)
                break
            self._began(now)
            self._size = stop - at
            self._left = max(0, stop - end)
            at = min(stop, end)
            if not self._left:
                self._answered(now)
        if at:
            self._send(data[:at], now)
        return at

    def _take_response(self, translation: Translation, data: memoryview, now: float) -> int:
        """Takes the cluster's response once all of it has arrived. Returns its size."""
        if translation.is_for_task or len(data) < LENGTH.size:
            return 0
        (size,) = LENGTH.unpack_from(data)
        stop: int = LENGTH.size + size
        upstream = self._upstream
        assert upstream is not None
        if not translation.is_small(size):
            self._client.wake()
            return 0
        if stop > len(data):
            self._client.deadline.move(now + self._limits.request_timeout)
            return 0
        self._began(now)
        try:
            response = self._translated.take(data[:stop], upstream)
        except RecordsError as error:
            self._fail(BadRequestError(f"the cluster's records: {error}"))
        except Exception as error:
            self._fail(error)
        else:
            if response is not None:
                self._since = now = self._monotonic()
                self.requests += 1
                self._translated.finish(len(response), now)
                self._send(response, now)
            elif translation.is_for_task:
                self._client.wake()
            else:
                self._expect(now, translation.wait)
        return stop

    def _send(self, data: memoryview | bytearray, now: float) -> None:
        client = self._client
        if not client.has_ended:  # a client that has gone receives nothing
            try:
                client.send(data)
            except ConnectionEndedError as error:
                self._fail(error)
                return
            if self._left >= WORTHWHILE or not client.is_writable:
                self._waits_for_client = True
                client.wake()
                return
        if self._left:
            self._client.deadline.move(now + self._limits.request_timeout)
        elif self._failure is None:
            self._continue(now)

    def _continue(self, now: float) -> None:
        """Continues after a whole response was sent."""
        client = self._client
        if self._unanswered:
            self._expect(now, self._unanswered[0][3])
        else:
            self._client.deadline.move(now + self._limits.idle_timeout)
        if client.available:
            client.offer_again()
        if self._is_last or client.has_ended or (client.available and self.is_idle):
            client.wake()

    def _began(self, now: float) -> None:
        assert self._upstream is not None
        if self._upstream.on_response is not None:
            api = self._unanswered[0][1].api if self._unanswered else FETCH
            self._upstream.on_response(self._upstream.name, now - self._since, api)

    def _answered(self, now: float) -> None:
        _, known, started, _, size = self._unanswered.pop(0)
        self._since = now
        self.requests += 1
        rule = self._session.rule
        self._counters.request_served(known.api, now - started, rule, size, self._size)

    # --- slow responses, and failures

    async def _send_rest(self) -> None:
        """Sends the rest of a response, as fast as the client takes it."""
        assert self._upstream is not None
        await self._client.drain()
        if self._left:
            await forward(self._upstream.stream, self._client, self._left)
            self._left = 0
            self._answered(self._monotonic())
        self._waits_for_client = False
        self._continue(self._monotonic())
        self._upstream.stream.offer_again()

    def _described(self) -> str:
        """The request that is under way, for log lines."""
        if self._translated.current is not None:
            return self._translated.current.header.described
        known = self._unanswered[0][1]
        return f"{known.name} of client id {known.client_id!r:.100}"

    def _fail(self, error: Exception) -> None:
        """Makes the task raise the error."""
        self._failure = error
        self._client.wake()

    def _taken_failure(self) -> Exception:
        """Returns the error to raise, and forgets it, because its traceback will refer to this
        object."""
        failure, self._failure = self._failure, RAISED
        assert failure is not None
        return failure

    def _overdue(self, error: TimeoutError) -> Exception:
        """The time-out of the request under way. No frame of its traceback may refer to it."""
        cause = self._silence(error)
        is_client = isinstance(cause, StalledError) and cause.peer == CLIENT
        return (TimeoutError if is_client else UnreachableError)(f"{self._described()}: {cause}")

    def _silence(self, error: TimeoutError) -> Exception:
        """The meaning of a time-out for the request under way, as an error."""
        assert self._upstream is not None
        if str(error):
            return error  # the time-out of a transfer
        stream, limit = self._upstream.stream, self._limits.request_timeout
        if self._left or stream.available:
            return stream.silence()
        wait = self._wait()
        return SilentBrokerError(self._upstream.address, limit + wait)
