"""One client's connection: bytes in until there is a request, bytes out until its answer is sent.

A request's buffer grows as its bytes arrive, whatever length it claims. What comes with a small
request waits here until its answer has been sent: some KiB at most. The rest stays with the system
or the client. So answers keep their order, and a client that does not read its answers costs one
answer's state.

Nothing here waits: the caller knows when a channel has bytes, or takes them.

Not here: sockets, threads and clocks (server.py), what a request does (broker.py)."""

import socket
from contextlib import suppress
from typing import Any, Final, Protocol

from downconvert.broker.exchange import Client, Exchange
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.responses import LENGTH_SIZE, ResponseSend
from downconvert.serving.limits import FREE_SIZE, RequestMemory
from downconvert.serving.places import Place

NOTHING: Final = memoryview(b"")


class Channel(Protocol):
    """A socket that does not block, with or without TLS."""

    def recv(self, size: int, /) -> bytes: ...
    def recv_into(self, buffer: memoryview, /) -> int: ...
    def send(self, data: memoryview, /) -> int: ...


class ConnectionEndedError(Exception):
    """The client has gone."""


class Incoming:
    """A request as its bytes arrive: its length first."""

    __slots__ = ("_buffer", "_filled", "_memory", "_size", "_taken", "is_begun", "size_max")

    def __init__(self, size_max: int, memory: RequestMemory) -> None:
        self.size_max = size_max
        self._memory = memory
        self._size: int | None = None  # None: the length has not come
        self._buffer = bytearray(LENGTH_SIZE)
        self._filled = self._taken = 0
        self.is_begun = False  # there is a part of a request in it, or all of one

    def space(self) -> memoryview | None:
        """The buffer for the next bytes; None: there is no memory for them now."""
        if self._filled == len(self._buffer) and not self._grow():
            return None
        return memoryview(self._buffer)[self._filled :]

    def received(self, count: int) -> memoryview | None:
        """Notes that `count` bytes have arrived in the space. Returns the frame, once it is whole.

        BadRequestError: the length is invalid."""
        self._filled += count
        self.is_begun = True
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

    def begin(self, data: memoryview) -> None:
        """Takes what came at once: a part of a request, of which less than FREE_SIZE has come.

        BadRequestError: the length is invalid."""
        while data:
            space = self.space()
            assert space is not None, "so few bytes need no memory"
            count = min(len(space), len(data))
            space[:count] = data[:count]
            self.received(count)
            data = data[count:]

    def release(self) -> None:
        """The frame is not needed any more; the next one may come."""
        if self._size is None:
            return
        if self._taken:
            self._memory.release(self, self._taken)
        self._buffer = bytearray(LENGTH_SIZE)
        self._size, self._filled, self._taken = None, 0, 0
        self.is_begun = False

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
        "ahead",
        "authenticates",
        "channel",
        "client",
        "exchange",
        "frame",
        "in_handshake",
        "incoming",
        "interest",
        "is_muted",
        "is_tls",
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
        self.frame: memoryview | None = None  # a request that is not handled yet
        self.ahead = NOTHING  # what came with the request before, and has not been looked at
        self.send: ResponseSend | None = None  # the answer, while it is sent
        self.started = now
        self.last_activity = now  # when the last byte went either way
        # When the request, the handshake or the authentication that is under way began.
        self.request_started: float | None = None
        self.interest = 0  # what its selector looks for
        self.is_tls = False  # its channel holds bytes that the selector does not see
        self.in_handshake = False  # of TLS
        self.is_muted = False  # its requests wait, as it has taken more than its rate
        self.authenticates = False  # it has to, and has not yet
        self.waits_to_write = False

    def read(self) -> memoryview | None:
        """Reads what there is of a request; its frame, once it is whole.

        ConnectionEndedError; BadRequestError; and what the channel raises, also where it has
        nothing now."""
        incoming = self.incoming
        if not incoming.is_begun:
            data, self.ahead = self.ahead, NOTHING
            if not data:
                data = memoryview(self.channel.recv(FREE_SIZE))
                if not data:
                    raise ConnectionEndedError
            if len(data) > LENGTH_SIZE:
                end = LENGTH_SIZE + int.from_bytes(data[:LENGTH_SIZE])
                if LENGTH_SIZE < end <= len(data) and end - LENGTH_SIZE <= incoming.size_max:
                    if end < len(data):
                        self.ahead = data[end:]
                    return data[LENGTH_SIZE:end]
            incoming.begin(data)
        return self._read_on()

    def check_open(self) -> None:
        """Looks whether the client has gone, and reads nothing. ConnectionEndedError."""
        if type(self.channel) is socket.socket:
            with suppress(BlockingIOError, InterruptedError):
                if not self.channel.recv(1, socket.MSG_PEEK):
                    raise ConnectionEndedError

    def _read_on(self) -> memoryview | None:
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
