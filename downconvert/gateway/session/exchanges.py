"""The steps that a session asks its connection for. No sockets and no threads here.

An exchange handles one request of a client. It is a generator. It yields a step: a request to the
cluster, reading the rest of the client's request, or a turn of conversion. The connection resumes
it with the step's result. In the end it returns the reply to the client. It runs on one thread at a
time.

Not here: carrying out the steps (network/connection.py)."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from downconvert.protocol.encoder import encode
from downconvert.protocol.responses import ResponseSend
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from records.units import KiB

from .headers import Header
from .spool import Spool


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the cluster. The exchange is resumed with its response, a Message.

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

    def response(self, spool: Spool, correlation_id: int) -> Message:
        """The cluster's response. BadRequestError: it is not a response to this request."""
        flexible = self.api is not ApiKey.ApiVersions and is_flexible(self.api, self.version)
        return spool.read(f"{self.api.name}Response", self.version, int(flexible), correlation_id)

    @property
    def expects_response(self) -> bool:
        """False only for a produce with acks=0."""
        return self.body is None or self.api is not ApiKey.Produce or self.body.acks != 0


# The first request on every connection to a broker. Brokers since Kafka 2.4 have this version.
ASK_API_VERSIONS: Final = Ask(
    ApiKey.ApiVersions,
    3,
    Message(client_software_name="lazy-downconvert-gateway", client_software_version="0"),
)


@dataclass(frozen=True, slots=True)
class Whole:
    """Asks for the whole frame of the client's request, a memoryview."""


@dataclass(frozen=True, slots=True)
class NoMemory:
    """There is no memory for the elements of the client's request now. The exchange is resumed
    after a moment."""


NO_MEMORY: Final = NoMemory()


@dataclass(frozen=True, slots=True)
class Turn:
    """The next step takes time (planning, conversion, compression) and must not run in the event
    loop.

    A turn ends with the next yield, after about TURN_SIZE bytes of records."""


TURN: Final = Turn()
TURN_SIZE: Final = 256 * KiB  # bytes of the log: 20 ms of gzip, the slowest codec


@dataclass(frozen=True, slots=True)
class Pause:
    """The exchange is resumed after this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Forward:
    """Forwards the request with this header, and forwards its response byte for byte.

    `throttle`: the position of the response's throttle time, if the client may be muted. Nothing
    else in the response is changed."""

    header: Header
    expects_response: bool = True
    throttle: "ThrottleField | None" = None


@dataclass(frozen=True, slots=True)
class ThrottleField:
    """The position of `throttle_time_ms` in a response whose body begins with it, as in Fetch."""

    header_size: int  # bytes: the correlation id and, if flexible, the number of tags


@dataclass(frozen=True, slots=True)
class Response:
    """The response to the client. `ends`: why its connection is closed afterwards; None: it is
    not. `throttled`: makes the response again, for a client that is muted for so many seconds."""

    send: ResponseSend
    ends: "HangUp | None" = None
    throttled: Callable[[float], ResponseSend] | None = None
    errors: Mapping[int, int] = field(default_factory=dict)  # error codes in it, with their counts


@dataclass(frozen=True, slots=True)
class Nothing:
    """No response: a produce with acks 0."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """Closes the connection, for this reason."""

    reason: str
    is_login: bool = False
    has_expired: bool = False  # whether the reason is an expired login
    is_over_limit: bool = False  # whether it is a limit of the client's principal


Reply: TypeAlias = Forward | Response | Nothing | HangUp
Result = TypeVar("Result")
Yielded: TypeAlias = Ask | Whole | NoMemory | Turn | Pause
Steps: TypeAlias = Generator[Yielded, Any, Reply]
Checks: TypeAlias = Generator[Yielded, Any, Reply | None]  # None: none yet
Reading: TypeAlias = Generator[Yielded, Any, Message]  # the client's request
Asking: TypeAlias = Generator[Ask | Turn, Message, Message]
Step: TypeAlias = Yielded | Reply


def same(result: Result) -> Result:
    """Makes a result that is known already."""
    return result


def nothing() -> None:
    """Makes the result of a step that has none."""


def advance(steps: Steps, make_result: Callable[[], Any]) -> Step:
    """Resumes an exchange with the result of its last step. Returns its next step, or its reply."""
    try:
        return steps.send(make_result())
    except StopIteration as end:
        reply: Reply = end.value
        return reply
