"""One request, who sent it, and its answer once there is one.

A connection has one exchange at a time: the next request is read when the answer to this one has
been sent, as Kafka does, so that answers keep their order."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from downconvert.broker.wire.requests import Request
from downconvert.broker.wire.responses import LENGTH_SIZE, ResponseSend, response
from downconvert.broker.wire.schemas import Message


@dataclass(slots=True, eq=False)
class Client:
    """A connection, as far as requests are concerned."""

    id: int
    address: str  # the host's; no port
    host: str = "localhost"  # what the client reaches us by, for answers that name brokers
    port: int = 9092
    software_name: str = ""  # what it says in ApiVersions, from version 3 on
    software_version: str = ""
    principal: str | None = None  # once authenticated
    state: dict[str, object] = field(default_factory=dict)  # of an authentication under way


class Exchange:
    """A request that is answered exactly once: with a response, with nothing, or by hanging up."""

    __slots__ = (
        "_lock",
        "_on_done",
        "client",
        "hangs_up",
        "is_done",
        "received",
        "request",
        "send",
    )

    def __init__(
        self,
        client: Client,
        request: Request,
        received: float,
        on_done: Callable[["Exchange"], None] | None = None,
    ) -> None:
        self.client = client
        self.request = request
        self.received = received  # seconds, of the broker's clock
        self.is_done = False
        self.hangs_up = False  # the connection ends with the answer
        self.send: ResponseSend | None = None  # None once done: nothing is to be sent (acks 0)
        self._on_done = on_done
        self._lock = Lock()

    def reply(self, body: Message, version: int | None = None) -> None:
        """Answers; in another version than the request's where the client's is not known."""
        self._finish(response(self.request.header, body, version))

    def reply_bytes(self, frame: bytes) -> None:
        """Answers with a frame that has no header: a token of an authentication."""
        self._finish(ResponseSend([bytearray(len(frame).to_bytes(LENGTH_SIZE) + frame)]))

    def reply_nothing(self) -> None:
        """The client expects no response."""
        self._finish(None)

    def hang_up(self) -> None:
        """Ends the connection, the only way to say no where there is no response."""
        self.hangs_up = True
        self._finish(None)

    def _finish(self, send: ResponseSend | None) -> None:
        with self._lock:
            assert not self.is_done, f"{self.request.api.name} is answered twice"
            self.send, self.is_done = send, True
        if self._on_done is not None:
            self._on_done(self)
