"""What a session asks of its connection. No sockets and no threads here.

An exchange handles one request of a client. It is a generator: it yields what it needs (an answer
of the cluster, the rest of the request, a turn in which to convert), is sent it, and returns the
reply to the client. It runs on one thread at a time, and only its connection resumes it.

Not here: who answers what is asked (network/connection.py)."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from downconvert.protocol.encoder import encode
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message, is_flexible

from .headers import Header
from .spool import Spool


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the cluster, whose answer comes back as a Message.

    `body` None: the client's own request, byte for byte."""

    api: ApiKey
    version: int
    body: Message | None

    def frame(self, correlation_id: int, client_id: str | None) -> bytes:
        """The bytes of a request of the gateway's own, without their length."""
        assert self.body is not None, "the client's own request has its bytes"
        header = Message(
            request_api_key=self.api,
            request_api_version=self.version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        flexible = is_flexible(self.api, self.version)
        start = encode("RequestHeader", 2 if flexible else 1, header)
        return start + encode(f"{self.api.name}Request", self.version, self.body)

    def answer(self, spool: Spool, correlation_id: int) -> Message:
        """The cluster's response. BadRequestError: it is not a response to this request."""
        flexible = self.api is not ApiKey.ApiVersions and is_flexible(self.api, self.version)
        return spool.read(f"{self.api.name}Response", self.version, int(flexible), correlation_id)

    @property
    def expects_response(self) -> bool:
        """Every request but a produce with acks=0."""
        return self.body is None or self.api is not ApiKey.Produce or self.body.acks != 0


# What every connection to a broker begins with. Brokers since Kafka 2.4 have this version.
HELLO: Final = Ask(
    ApiKey.ApiVersions,
    3,
    Message(client_software_name="lazy-downconvert-gateway", client_software_version="0"),
)


@dataclass(frozen=True, slots=True)
class Whole:
    """The whole frame of the client's request is needed; it comes back as a memoryview."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What follows takes time (planning, conversion, compression) and is not for the event loop.

    A turn is over with the next thing that is yielded: about TURN_SIZE bytes of records."""


TURN: Final = Turn()
TURN_SIZE: Final = 256 * 1024  # bytes of the log: 20 ms of gzip, the slowest codec


@dataclass(frozen=True, slots=True)
class Pause:
    """The exchange is resumed after this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Forward:
    """The request of this header goes to the cluster as it is, and its answer to the client,
    byte for byte.

    `throttle`: where the answer says for how long its client is not read from, if it may have to;
    nothing else of it is changed."""

    header: Header
    expects_response: bool = True
    throttle: "ThrottleField | None" = None


@dataclass(frozen=True, slots=True)
class ThrottleField:
    """Where an answer has `throttle_time_ms`: right behind its header, as that of Fetch has."""

    header_size: int  # bytes: the correlation id, and where it is flexible the number of its tags


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to the client. `ends`: why its connection is closed afterwards; None: it is
    not. `throttled`: makes it once more, if its client is not read from for so many seconds."""

    send: ResponseSend
    ends: str | None = None
    is_login: bool = False  # whether that is because it did not prove who it is
    throttled: Callable[[float], ResponseSend] | None = None
    errors: Mapping[int, int] = field(default_factory=dict)  # how often it tells each code


@dataclass(frozen=True, slots=True)
class Nothing:
    """No response: a produce with acks 0."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """The connection is closed, for this reason."""

    reason: str
    is_login: bool = False
    has_expired: bool = False  # whether that is because its login has


Reply: TypeAlias = Forward | Answer | Nothing | HangUp
Steps: TypeAlias = Generator[Ask | Whole | Turn | Pause, Any, Reply]
Asking: TypeAlias = Generator[Ask | Turn, Message, Message]
Step: TypeAlias = Ask | Whole | Turn | Pause | Reply


def same(whole: memoryview) -> memoryview:
    """What is said to an exchange that has asked for the whole request."""
    return whole


def nothing() -> None:
    """What is said to an exchange that has asked for nothing."""


def advance(steps: Steps, said: Callable[[], Any]) -> Step:
    """What an exchange yields next, or returns. `said`: makes what it is told."""
    try:
        return steps.send(said())
    except StopIteration as end:
        reply: Reply = end.value
        return reply


def advance_in_turns(steps: Steps, said: Callable[[], Any], goes_on: Callable[[int], bool]) -> Step:
    """Likewise; turns that follow are taken at once while nobody else waits for one."""
    turns, step = 1, advance(steps, said)
    while isinstance(step, Turn) and goes_on(turns):
        turns, step = turns + 1, advance(steps, nothing)
    return step
