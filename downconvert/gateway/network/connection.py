"""Serves one client, from its first byte to its last: reads requests, runs sessions, sends
responses.

The client's connection and the one to the cluster are closed together. So a client notices that its
broker has gone, and asks for metadata as with any broker.

Not here: the connection to the cluster (broker_link.py)."""

from asyncio import Future, get_running_loop, sleep
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic, perf_counter
from typing import Any

from downconvert.gateway.figures import Counters, End
from downconvert.gateway.network.sockets.deadline import Parked, pause, wake
from downconvert.gateway.network.sockets.ended import (
    ConnectionEndedError,
    UnreachableError,
    end_of,
    hang_up,
    silence_of_client,
)
from downconvert.gateway.network.sockets.streams import CLIENT, Stream
from downconvert.gateway.session.exchanges import (
    ASK_API_VERSIONS,
    Ask,
    Forward,
    HangUp,
    NoMemory,
    Nothing,
    Pause,
    Reply,
    Response,
    Step,
    Turn,
    Whole,
    advance,
    nothing,
    same,
)
from downconvert.gateway.session.session import Session
from downconvert.gateway.session.spool import MEMORY_MAX, Spool
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey
from downconvert.serving.places import EVICTED, Place
from downconvert.serving.unread import UNREAD
from records import RecordsError

from .broker_link import BrokerLink
from .client_request import LENGTH, MEMORY_RETRY, PREFIX_SIZE, ClientRequest
from .cluster_broker import ClusterBroker
from .conversion_pool import TimedPool
from .delivery import INLINE_SECONDS, Delivery
from .passing import Passing
from .translating import Translation
from .upstream import INLINE_MAX


class Connection:
    """The connection of a client."""

    __slots__ = (  # thousands of idle connections exist
        *("_before_response", "_client", "_clock", "_counters", "_ended_broker", "_is_idle"),
        *("_is_last", "_is_over", "_is_small", "_link", "_mute", "_muted_until", "_pause"),
        *("_pool", "_resume", "_served", "is_evicted", "is_unread", "passing", "place"),
        *("session", "started"),
    )

    def __init__(
        self,
        client: Stream,
        session: Session,
        broker: ClusterBroker,
        clock: Callable[[], float],
        before_response: Callable[[], Awaitable[None]],
        pool: TimedPool,
        counters: Counters,
        place: Place,
    ) -> None:
        self._served = 0  # requests not handled by `passing`
        self.place = place
        place.on_evicted = self._evict
        self._counters = counters
        self._ended_broker = ""  # a broker that closed between two requests
        self._client = client
        self.session = session
        self.passing = Passing(client, session, counters, clock, monotonic)
        self._link = BrokerLink(client, session, broker, self.passing)
        self._link.on_waiting = self._client_ended  # it may have gone before
        self._link.on_end = self._upstream_ended
        self._clock = clock
        self._before_response = before_response  # makes brokers named in a response reachable
        self._pool = pool
        self._is_idle = True
        self._is_over = False  # the client has gone, or will be disconnected
        self._mute: Future[None] | None = None  # while muted; done when the connection is over
        self._muted_until = 0.0  # by perf_counter; in the future if the client exceeds its rate
        self._is_small = True  # whether all responses of the cluster to the request are in memory
        self._is_last = False
        self._pause: Future[None] | None = None  # a delayed login; done when the client goes
        self.is_evicted = False  # another connection took its place
        self.is_unread = False  # others needed the memory of a response that it did not read
        self.started = monotonic()
        self._resume: Callable[[Connection], None]

    @property
    def requests(self) -> int:
        """The number of answered requests."""
        return self._served + self.passing.requests

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return not (self._is_idle and self.passing.is_idle)

    def end(self, error: BaseException) -> End:
        """Why the connection ended, from the exception that `serve` raised."""
        if self.is_evicted:
            return End.REFUSED
        if self.is_unread:
            return End.TIMEOUT
        if isinstance(error, ConnectionEndedError):
            if error.peer != CLIENT and not self._link.has_client_gone:
                return End.CLUSTER
            if self.session.identity.refusal:
                return End.LOGIN
        return end_of(error) or End.CLIENT

    def why(self, error: BaseException) -> str:
        """The reason as text for logs."""
        if self.is_evicted or self.is_unread:
            return EVICTED if self.is_evicted else UNREAD
        if isinstance(error, TimeoutError) and not str(error):
            return silence_of_client(self.session.shared.config.limits, is_idle=self._is_idle)
        is_refused = self.end(error) is End.LOGIN and isinstance(error, ConnectionEndedError)
        return self.session.identity.refusal if is_refused else str(error) or type(error).__name__

    def begin(self, resume: Callable[["Connection"], None]) -> None:
        """Begins. `resume`: called whenever a task must call `serve`, or the client has gone."""
        self._resume = resume
        self._client.patience = self.session.shared.config.limits.idle_timeout
        self._client.on_end = self._client_ended
        self.passing.open()
        if self._client.available or self._client.has_ended:
            resume(self)
        else:
            self._park()

    def _park(self) -> None:
        """Waits without a task, because thousands of connections are idle."""
        self._client.park(Parked(partial(self._resume, self)), self._client.deadline.limit)

    @property
    def has_gone(self) -> bool:
        """Whether the client has gone while nothing was under way. If so, call `gone`."""
        return self._is_idle and self.passing.has_client_gone

    def gone(self) -> ConnectionEndedError | None:
        """Closes the connection of a client that has gone. Returns why it ended; None: `finish`
        closed it."""
        self.close()
        is_finished = self._is_last and self._is_idle
        return None if is_finished else ConnectionEndedError(self._ended_broker or CLIENT)

    async def serve(self) -> bool:
        """Serves the client until it is idle (True), or until `finish` is called or either side
        closes. ConnectionEndedError, BadRequestError, TimeoutError, UnreachableError, RecordsError,
        OSError: why it ended."""
        limits, is_parked = self.session.shared.config.limits, False
        try:
            while not (self._is_last and self.passing.is_idle):
                self._is_idle = True
                if self._link.has_ended:
                    self._upstream_ended()  # while a request was under way
                begun = await self.passing.run()
                if self.passing.is_open:
                    self._park()
                    is_parked = True
                    return True
                if begun is None and self._is_last:
                    break
                self._is_idle = False
                if begun is not None:
                    await self._serve(len(begun.frame), begun.started, begun)
                    continue
                limit = monotonic() + limits.receive_timeout
                await self._client.ensure(LENGTH.size, limit)
                size = LENGTH.unpack_from(self._client.available)[0]
                if not 0 < size <= limits.request_size:
                    raise BadRequestError(
                        f"a request of {size} bytes; the limit is {limits.request_size}"
                    )
                self._client.consume(LENGTH.size)
                await self._client.ensure(min(size, PREFIX_SIZE), limit)
                await self._serve(size, monotonic())
        except ConnectionEndedError as error:
            if not (self._is_last and self._is_idle):  # else `finish` closed it
                raise ConnectionEndedError(self._ended_broker or error.peer) from None
        finally:
            if not is_parked:
                self.close()
        return False

    async def _serve(self, size: int, started: float, begun: Translation | None = None) -> None:
        """Serves one request. `begun`: its translation, if that has begun."""
        await self._exchange(size, begun)
        if self.session.identity.keeps_place:
            self.place.settle()
        self._served += 1
        session, seconds = self.session, monotonic() - started
        sizes = LENGTH.size + size, session.response_size
        self._counters.request_served(session.api, seconds, session.rule, *sizes)
        if (seconds := self._muted_until - perf_counter()) > 0 and not self._is_over:
            self._is_idle = True  # no request is read while the client is muted
            self._mute = get_running_loop().create_future()
            await pause(seconds, self._mute)

    def _evict(self) -> None:
        self.is_evicted = True
        self.close()

    def _end_unread(self) -> None:
        """Others need the memory of the response, which its client reads too slowly."""
        self.is_unread = True
        self._client.abort()
        self._link.close()

    async def _wait(self, seconds: float) -> None:
        """Waits before a login is checked. ConnectionEndedError: the client has gone meanwhile."""
        self._pause = get_running_loop().create_future()
        try:
            self._client_ended()  # it may have gone before
            if await pause(seconds, self._pause):
                raise ConnectionEndedError(CLIENT)
        finally:
            self._pause = None

    def _set_over(self) -> None:
        self._is_over = True
        wake(self._mute)

    def finish(self) -> None:
        """Ends the connection after the current request, or at once if there is none."""
        self._is_last = True
        if self._is_idle:
            if self.passing.is_idle:
                self.close()
            self.passing.finish()

    def close(self) -> None:
        """Closes the connection. Written bytes are still sent."""
        self._set_over()
        self._client.close()
        self._link.close()

    def _client_ended(self) -> None:
        """Closes the broker's connection if the client has gone during a wait for a response.
        Requests that the client sent before are still handled."""
        if self._client.has_ended:
            wake(self._pause)
        if self._client.has_ended and not self._client.available:
            self._set_over()
            self._link.client_ended()

    def _upstream_ended(self) -> None:
        if not self.passing.is_idle:
            self.passing.broker_ended()
        elif self._is_idle and not self._client.available:
            self._ended_broker = "" if self._link.has_client_gone else self._link.peer
            self._client.close()

    async def _exchange(self, size: int, begun: Translation | None) -> None:
        identity, frame = self.session.identity, None if begun is None else begun.frame
        if frame is None:
            identity.begin_request()
        limits = self.session.shared.config.limits
        request = ClientRequest(self._client, size, limits, identity.memory, frame)
        delivery = Delivery(self._client, self._pool)
        try:  # sending may take long: hold only the request and the response
            reply = await self._handle(request, size, begun, delivery)
            response = await self._reply(reply, request, partial(self._charge, size))
            if response is not None:
                send, ends = response
                request.release()
                try:
                    await self._send(send, delivery)
                except ConnectionEndedError:  # requests sent before it closed are handled
                    is_cut = self.is_unread or not self._client.has_ended
                    if is_cut or not self._client.available:
                        raise
                if ends is not None:
                    raise hang_up(ends)
        except (UnreachableError, TimeoutError) as error:
            reason = f"{request.described}: {str(error) or 'it has not arrived whole in time'}"
            is_client = isinstance(error, TimeoutError) and getattr(error, "peer", CLIENT) == CLIENT
            raise (TimeoutError if is_client else UnreachableError)(reason) from error
        finally:
            request.release()
            delivery.close()

    async def _handle(
        self, request: ClientRequest, size: int, begun: Translation | None, delivery: Delivery
    ) -> Reply:
        """Runs the session's exchange for a request and returns its reply. Small responses are
        converted here, because handing them to a thread would cost more."""
        step: Step | None = None
        if begun is None:
            steps = self.session.exchange(request.prefix, size, self._clock())
        else:
            steps, step = begun.steps, begun.step
        make_result: Callable[[], Any] = nothing
        takes_time = False  # whether the next step goes to a thread
        spool: Spool | None = None  # the cluster's response; a large one has not arrived whole
        self._is_small, until = True, 0.0
        while True:
            if step is not None:
                pass
            elif spool is not None and not spool.is_whole:
                response = delivery.receive(self._link.stream, spool, steps, make_result)
                step = await self._link.while_waiting(response)
            elif takes_time:
                step = await delivery.advance(steps, make_result)
            elif self.session.identity.is_timed:
                step = self._pool.here(partial(advance, steps, make_result))
            else:
                step = advance(steps, make_result)
            match step:
                case Turn():
                    make_result, takes_time = nothing, perf_counter() >= until
                case Pause(seconds):
                    await self._wait(seconds)
                    make_result, takes_time = nothing, False
                case Whole():
                    whole = await request.whole()
                    make_result, takes_time = partial(same, whole), len(whole) > INLINE_MAX
                case NoMemory():
                    await sleep(MEMORY_RETRY)
                    make_result = nothing
                case Ask() if step is ASK_API_VERSIONS:
                    make_result, takes_time = partial(same, await self._link.api_versions()), False
                case Ask():
                    correlation_id = None if begun is None else begun.correlation_id
                    is_fetch, begun = step.api is ApiKey.Fetch, None
                    make_result, spool = await self._link.ask(step, request, correlation_id)
                    self._is_small &= spool is None or spool.size <= MEMORY_MAX
                    takes_time = not self._is_small
                    if is_fetch and takes_time:
                        await delivery.open()
                    # Only fetches: their turns are short. A producer's batch is rewritten in one
                    # turn.
                    until = perf_counter() + INLINE_SECONDS if self._is_small and is_fetch else 0.0
                case _:
                    return step
            step = None

    def _charge(self, received: int, sent: int) -> float:
        """Charges `received` bytes of a request and `sent` bytes of its response to the client.
        Returns the seconds for which the client is muted from now on."""
        now = perf_counter()
        session, spent = self.session, self._pool.spent()
        session.response_size = sent
        seconds = session.identity.charge(session.api, received, sent, spent, now)
        if seconds:
            self._muted_until = now + seconds
            self._counters.throttled(session.api, seconds)
        return seconds

    async def _reply(
        self, reply: Reply, request: ClientRequest, charge: Callable[[int], float]
    ) -> tuple[ResponseSend, HangUp | None] | None:
        """Forwards the request, or returns the response to send, and why the connection must end
        then."""
        match reply:
            case Response(send, ends, throttled, errors):
                await self._before_response()
                if errors:
                    self._counters.errors_answered(self.session.api, errors)
                seconds = charge(send.size)
                if seconds and throttled is not None:
                    send = throttled(seconds)
                return send, ends
            case Forward():
                await self._link.forward(reply, request, charge)
            case Nothing():
                charge(0)
            case HangUp():
                raise hang_up(reply)
        return None

    async def _send(self, send: ResponseSend, delivery: Delivery) -> None:
        unread = self.session.shared.unread
        delivery.waiting = lambda: unread.held(self.place, send.in_memory, self._end_unread)
        try:
            await delivery.send(send, is_small=self._is_small)
        except RecordsError as error:
            raise BadRequestError(f"the cluster's records: {error}") from error
        finally:
            self.session.sent(send)
