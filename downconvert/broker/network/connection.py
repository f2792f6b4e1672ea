"""One client's connection: bytes in until there is a request, bytes out until its answer is sent.

A request's buffer grows as its bytes arrive, whatever length it claims. The next request stays
where it is, with the system or the client, until the answer to this one has been sent; so answers
keep their order, and a client that does not read its answers costs one answer's state.

Nothing here waits: the caller knows when a channel has bytes, or takes them.

Not here: sockets, threads and clocks (server.py), what a request does (broker.py)."""

from typing import Any, Protocol

from downconvert.broker.wire.responses import LENGTH_SIZE, ResponseSend

from .errors import BadRequestError
from .exchange import Client, Exchange
from .limits import FREE_SIZE, RequestMemory
from .places import Place


class Channel(Protocol):
    """A socket that does not block, with or without TLS."""

    def recv_into(self, buffer: memoryview, /) -> int: ...
    def send(self, data: memoryview, /) -> int: ...


class ConnectionEndedError(Exception):
    """The client has gone."""


class Incoming:
    """A request as its bytes arrive: its length first."""

    __slots__ = ("_buffer", "_filled", "_memory", "_size", "_taken", "size_max")

    def __init__(self, size_max: int, memory: RequestMemory) -> None:
        self.size_max = size_max
        self._memory = memory
        self._size: int | None = None  # None: the length has not come
        self._buffer = bytearray(LENGTH_SIZE)
        self._filled = self._taken = 0

    def space(self) -> memoryview | None:
        """The buffer for the next bytes; None: there is no memory for them now."""
        if self._filled == len(self._buffer) and not self._grow():
            return None
        return memoryview(self._buffer)[self._filled :]

    def received(self, count: int) -> memoryview | None:
        """Notes that `count` bytes have arrived in the space. Returns the frame, once it is whole.

        BadRequestError: the length is invalid."""
        self._filled += count
        if self._size is None:
            if self._filled < LENGTH_SIZE:
                return None
            size = int.from_bytes(self._buffer, signed=True)
            if not 0 < size <= self.size_max:
                raise BadRequestError(f"a request of {size:,} bytes: at most {self.size_max:,}")
            self._size, self._filled = size, 0
            self._buffer = bytearray(min(size, FREE_SIZE))
            return None
        return memoryview(self._buffer) if self._filled == self._size else None

    def release(self) -> None:
        """The frame is not needed any more; the next one may come."""
        if self._taken:
            self._memory.release(self, self._taken)
        if self._size is not None:
            self._buffer = bytearray(LENGTH_SIZE)
        self._size, self._filled, self._taken = None, 0, 0

    def _grow(self) -> bool:
        """Doubles the buffer, up to the request's size: never more than twice what has arrived."""
        assert self._size is not None
        more = min(self._filled, self._size - self._filled)
        if not self._memory.take(self, more):
            return False
        self._taken += more
        self._buffer += bytes(more)
        return True


class Connection:
    """A client, its channel, and the one exchange that is under way."""

    __slots__ = (
        "authenticates",
        "channel",
        "client",
        "exchange",
        "frame",
        "in_handshake",
        "incoming",
        "interest",
        "is_muted",
        "last_activity",
        "place",
        "request_started",
        "send",
        "started",
        "waits_to_write",
    )

    def __init__(
        self, client: Client, channel: Any, incoming: Incoming, place: Place, now: float
    ) -> None:
        self.client = client
        self.channel = channel
        self.incoming = incoming
        self.place = place
        self.exchange: Exchange | None = None  # from the request's last byte to its answer's
        self.frame: memoryview | None = None  # a request for another thread
        self.send: ResponseSend | None = None  # the answer, while it is sent
        self.started = now
        self.last_activity = now  # when the last byte went either way
        # When the request, the handshake or the authentication that is under way began.
        self.request_started: float | None = None
        self.interest = 0  # what its selector looks for
        self.in_handshake = False  # of TLS
        self.is_muted = False  # its requests wait, as it has taken more than its rate
        self.authenticates = False  # it has to, and has not yet
        self.waits_to_write = False

    def read(self) -> memoryview | None:
        """Reads what there is of a request; its frame, once it is whole.

        ConnectionEndedError; BadRequestError; and what the channel raises, also where it has
        nothing now."""
        while True:
            space = self.incoming.space()
            if space is None:
                return None
            with space:
                count = self.channel.recv_into(space)
            if not count:
                raise ConnectionEndedError
            frame = self.incoming.received(count)
            if frame is not None:
                return frame
