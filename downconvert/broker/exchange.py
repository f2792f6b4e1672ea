"""One request, the client that sent it, and its answer once there is one.

A connection has one exchange at a time: the next request is read when the answer to this one has
been sent, as Kafka does, so that answers keep their order.

An exchange belongs to the thread that owns its connection: only that thread works on it, answers it
and sends the answer. Other threads post what is to be done."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from downconvert.access.credentials import Proved
from downconvert.access.permissions import Permission
from downconvert.access.rights import Access
from downconvert.protocol.error_codes import error_codes
from downconvert.protocol.requests import Request
from downconvert.protocol.responses import LENGTH_SIZE, ResponseSend, response, throttled
from downconvert.protocol.schemas import Message
from records.logged import log_of

from .endings import End
from .owner import Owner, Step

LOG: Final = log_of(__name__)
# Is told the bytes of an answer, and the time; returns the seconds of throttling.
Quota: TypeAlias = Callable[[int, float], float]


@dataclass(slots=True, eq=False)
class Client:
    """The client of a connection, as requests see it."""

    id: int
    address: str  # the host's; no port
    host: str = "localhost"  # what the client reaches us by, for answers that name brokers
    port: int = 9092
    software_name: str = ""  # what it says in ApiVersions, from version 3 on
    software_version: str = ""
    principal: str | None = None  # once authenticated
    proved: Proved | None = None  # by what
    claimed: str = ""  # the user of its last login, proved or not
    rule: int | None = None  # for its address, where it has shown nothing else
    refusal: str = ""  # why a login failed that it was told of; it may leave without a word
    certificate: str | None = None  # the name in it
    access: Access | None = None  # what it may do; None: that is not known yet
    state: dict[str, object] = field(default_factory=dict)  # of an authentication under way
    client_id: str = ""  # of its last request
    requests: int = 0  # that it has sent
    told: dict[str, set[int]] = field(default_factory=dict)  # refusals that are in the log
    is_converting: bool = False  # its last fetch needed another codec, and so will the next


class Exchange:
    """A request that is answered exactly once: with a response, with nothing, or by closing the
    connection."""

    __slots__ = (
        "_owner",
        "_paused",
        "client",
        "close_after_reply",
        "defect",
        "end",
        "errors",
        "has_waited",
        "holds_turns",
        "is_abandoned",
        "is_done",
        "now",
        "on_done",
        "permission",
        "quota",
        "received",
        "request",
        "send",
        "throttle",
        "why",
        "work",
    )

    def __init__(
        self,
        client: Client,
        request: Request,
        received: float,
        on_done: Callable[["Exchange"], None] | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.client = client
        self.request = request
        self.received = received  # seconds, of the broker's clock
        self.is_done = False
        self.close_after_reply = False  # the connection ends with the answer
        self.end, self.why = End.REQUEST, ""  # where it does
        self.send: ResponseSend | None = None  # None once done: nothing is to be sent (acks 0)
        self.is_abandoned = False  # its client has gone
        self.defect: Exception | None = None  # why there is no other answer than hanging up
        self.permission: Permission | None = None  # of a client that may not do everything
        self.quota: Quota | None = None  # of a client that has one
        self.throttle = 0.0  # seconds from `now` on in which its client is not read from
        self.now = received  # when it was worked on last
        self.errors: dict[int, int] = {}  # that its answer tells, and how often
        self.has_waited = False  # in the purgatory
        self.holds_turns = False  # or chunks: what a conversion takes for its client
        self.on_done = on_done  # called by whoever answers
        self._owner = Owner() if owner is None else owner
        self._paused: Step | None = None
        self.work: Generator[Any, None, Any] | None = None  # that goes on in another turn

    def post(self, step: Step) -> None:
        """The owner runs the step as soon as it can. Thread-safe."""
        self._owner.post(partial(self._run, step))

    def post_turn(self, step: Step) -> None:
        """The owner runs the step in its next turn. The owner's own call."""
        self._owner.post_turn(partial(self._run, step))

    def pause(self, step: Step) -> None:
        """The owner runs the step once somebody calls `wake`. The owner's own call, in the step in
        which it asked to be woken."""
        self._paused = step

    def wake(self) -> None:
        """The owner goes on with what is paused; where nothing is, nothing happens. Thread-safe."""
        self.post(self._go_on)

    def _go_on(self, now: float) -> None:
        step, self._paused = self._paused, None
        if step is not None:
            step(now)

    def abandon(self) -> None:
        """The client has gone: nothing more is done for it, and what its work holds is released
        now: the work refers to its own exchange, and only the collector would find that it is
        over, at any time and in any thread."""
        self.is_abandoned = True
        self._paused = None
        work, self.work = self.work, None
        if work is not None:
            work.close()

    def _run(self, step: Step, now: float) -> None:
        """Runs a step. An exception ends this exchange, and no other."""
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
        """Answers; in another version than the request's where the client's is not known."""
        if self.permission is not None:
            self.permission.complete(body)
        self.errors = error_codes(self.request.api, body)
        send = response(self.request.header, body, version)
        if self.quota is not None:
            self._charge(send.size)
            if self.throttle:
                send = throttled(self.request.header, body, self.throttle, version)
        self._finish(send)

    def reply_bytes(self, frame: bytes) -> None:
        """Answers with a frame that has no header: a token of an authentication."""
        self._finish(ResponseSend([bytearray(len(frame).to_bytes(LENGTH_SIZE) + frame)]))

    def reply_nothing(self) -> None:
        """The client expects no response."""
        self._charge(0)
        self._finish(None)

    def hang_up(self, why: str, end: End = End.REQUEST) -> None:
        """Closes the connection: the only way to refuse where there is no response."""
        self.close(why, end)
        self._finish(None)

    def close(self, why: str, end: End = End.REQUEST) -> None:
        """The connection ends with the answer."""
        self.close_after_reply, self.why, self.end = True, why, end

    def _charge(self, size: int) -> None:
        if self.quota is not None:
            self.throttle = self.quota(size, self.now)

    def _finish(self, send: ResponseSend | None) -> None:
        assert not self.is_done, f"{self.request.api.name} is answered twice"
        self.send, self.is_done = send, True
        if self.on_done is not None:
            self.on_done(self)
