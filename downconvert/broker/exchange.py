"""One request, the client that sent it, and its response once there is one.

As in Kafka, a connection has one exchange at a time: the next request is read after the response
was sent. So responses keep their order.

An exchange belongs to the thread that owns its connection. Only that thread works on it, answers
it and sends the response. Other threads post steps to it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from downconvert.access.credentials import Proved
from downconvert.access.permissions import Permission
from downconvert.access.rights import Access
from downconvert.protocol.error_codes import error_counter
from downconvert.protocol.requests import Request
from downconvert.protocol.responses import (
    LENGTH_SIZE,
    ResponseSend,
    encoded_response,
    response,
    throttled,
)
from downconvert.protocol.schemas import Message
from downconvert.serving.limits import FREE_SIZE
from records.files.sends import Send
from records.logged import log_of

from .endings import End
from .operating.request_counts import RequestRow
from .owner import Owner, Step

LOG: Final = log_of(__name__)
# Called with the bytes of a response and the time. Returns the seconds of throttling.
Quota: TypeAlias = Callable[[int, float], float]
NO_ERRORS: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class Client:
    """The client of a connection, for handlers."""

    id: int
    address: str  # host without port
    host: str = "localhost"  # the address that the client connected to, for responses with brokers
    port: int = 9092
    software_name: str = ""  # from its ApiVersions request, version 3 or later
    software_version: str = ""
    principal: str | None = None  # once authenticated
    proved: Proved | None = None  # how it authenticated
    claimed: str = ""  # the user of its last login attempt, successful or not
    rule: int | None = None  # the rule for its address, if it has proved nothing
    refusal: str = ""  # why its last login failed; the client may then just disconnect
    certificate: str | None = None  # the name in its certificate
    access: Access | None = None  # its rights; None: not determined yet
    state: dict[str, object] = field(default_factory=dict)  # of an authentication in progress
    client_id: str = ""  # of its last request, shortened if it is long
    labels: tuple[str, ...] | None = None  # of its metrics; None: not determined yet
    requests: int = 0  # how many it has sent
    logged_refusals: dict[str, set[int]] = field(default_factory=dict)  # error codes by API
    is_converting: bool = False  # a fetch needed a large conversion, so later ones may, too


class Exchange:
    """A request, answered exactly once: with a response, without one, or by closing the
    connection."""

    # Most exchanges never change these.
    is_done = False
    close_after_reply = False  # the connection is closed after the response
    end, why = End.REQUEST, ""  # the reason, if it is closed
    send: ResponseSend | None = None  # the response; None when done: there is none (acks=0)
    is_abandoned = False  # its client has gone
    may_be_abandoned = True  # whether it ends if its client goes while it is worked on
    defect: Exception | None = None  # why the connection is closed without a response
    permission: Permission | None = None  # of a client with limited rights
    quota: Quota | None = None  # of a client with a quota
    throttle = 0.0  # seconds, from `now` on, for which its client is muted
    errors: Mapping[int, int] = NO_ERRORS  # error codes in the response, and how many of each
    converted: Sequence[tuple[str, Send]] = ()  # topics, each with its converted records
    row: RequestRow | None = None  # the row that counts it, once it is accepted
    has_request = True  # whether the request's body is still needed
    has_waited = False  # in the purgatory
    holds_turns = False  # its client may hold a planning slot, a large chunk or a conversion
    work: Generator[Any, None, Any] | None = None  # continues in another turn
    _paused: Step | None = None

    def __init__(
        self,
        client: Client,
        request: Request,
        received: float,
        on_done: Callable[["Exchange"], None] | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.client = client
        self.request = request  # an earlier one, if it had the same bytes
        self.correlation_id = request.header.correlation_id  # set again if the request is reused
        self.received = received  # seconds, of the broker's clock
        self.now = received  # the time of the last step
        self.on_done = on_done  # called when it is done
        self._owner = Owner() if owner is None else owner

    def post(self, step: Step) -> None:
        """The owner runs the step as soon as it can. Thread-safe."""
        self._owner.post(partial(self._run, step))

    def post_turn(self, step: Step) -> None:
        """The owner runs the step in its next turn. Called by the owner."""
        self._owner.post_turn(partial(self._run, step))

    def work_on(self, work: Generator[None, None, Message | None], now: float) -> None:
        """Runs work in turns, one up to each `yield`, and replies with the message that it returns.
        None: the work has replied, or set up a wait. Called by the owner."""
        del now  # each turn is called with its time
        self.work = work
        try:
            next(work)
        except StopIteration as end:
            self.work = None
            if end.value is not None:
                self.reply(end.value)
        else:
            self.post_turn(partial(self.work_on, work))

    def pause(self, step: Step) -> None:
        """The owner runs the step after a call of `wake`. Called by the owner, in the step that
        registered `wake`."""
        self._paused = step

    def wake(self) -> None:
        """The owner runs the paused step, if there is one. Thread-safe."""
        self.post(self._resume)

    def _resume(self, now: float) -> None:
        step, self._paused = self._paused, None
        if step is not None:
            step(now)

    def abandon(self) -> None:
        """The client has gone, and all work for it ends. The generator of work in progress is
        closed at once. It refers to its exchange, so otherwise the garbage collector would close
        it, at any time and in any thread."""
        self.is_abandoned = True
        self._paused = None
        work, self.work = self.work, None
        if work is not None:
            work.close()

    def release_request(self) -> None:
        """Releases the request's body, which nothing needs any more. Others may refer to the
        exchange."""
        self.has_request = False
        self.request = Request(self.request.header, Message(), self.request.size)

    def _run(self, step: Step, now: float) -> None:
        """Runs a step. An exception ends only this exchange."""
        if self.is_done or self.is_abandoned:
            return
        self.now = now
        try:
            step(now)
        except Exception as error:
            name, address = self.request.api.name, self.client.address
            LOG.exception("a defect: %s of %s is not answered", name, address)
            if not self.is_done:
                self.defect = error
                self.hang_up("a defect", End.DEFECT)

    def reply(self, body: Message, version: int | None = None) -> None:
        """Sends a response. `version`: other than the request's, if that is not supported."""
        if self.permission is not None:
            self.permission.complete(body)
        header, number = self.request.header, self.correlation_id
        self.errors = error_counter(header.api)(body)
        send = response(header, body, version, correlation_id=number)
        if self.quota is not None:
            self._charge(send.size)
            if self.throttle:
                send = throttled(header, body, self.throttle, version, correlation_id=number)
        self.finish(send)

    def reply_encoded(self, body: bytes) -> None:
        """Responds with a body that was encoded before, in the request's version. It has no errors
        and depends on no permission."""
        header = self.request.header
        self.finish(encoded_response(header, body, correlation_id=self.correlation_id))

    def reply_bytes(self, frame: bytes) -> None:
        """Responds with a frame without a header: a token of an authentication."""
        self.finish(ResponseSend([bytearray(len(frame).to_bytes(LENGTH_SIZE) + frame)]))

    def reply_nothing(self) -> None:
        """The client expects no response."""
        self._charge(0)
        self.finish(None)

    def hang_up(self, why: str, end: End = End.REQUEST) -> None:
        """Closes the connection without a response. Some requests can be refused in no other
        way."""
        self.close(why, end)
        self.finish(None)

    def close(self, why: str, end: End = End.REQUEST) -> None:
        """The connection is closed after the response."""
        self.close_after_reply, self.why, self.end = True, why, end

    def _charge(self, size: int) -> None:
        if self.quota is not None:
            self.throttle = self.quota(size, self.now)

    def finish(self, send: ResponseSend | None) -> None:
        """The exchange is done. `send` None: there is no response."""
        assert not self.is_done, f"{self.request.api.name} is answered twice"
        self.send, self.is_done = send, True
        if self.request.size > FREE_SIZE:  # its response may be sent for long
            self.release_request()
        if self.on_done is not None:
            self.on_done(self)
