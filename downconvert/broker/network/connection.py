"""One client's connection: reads bytes until a request is complete, then writes its response.

A request's buffer grows as its bytes arrive, whatever length the request claims. A few KiB that
arrive after a request wait here until the response has been sent. Further bytes stay in the system
or at the client. So responses keep their order. A client that does not read its responses costs the
state of one response.

Nothing here blocks. The caller knows when a channel is readable or writable.

Not here: sockets, threads and clocks (server.py), handling a request (broker.py)."""

import socket
from contextlib import suppress
from typing import Any, Protocol

from downconvert.broker.exchange import Client, Exchange
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.responses import LENGTH_SIZE, ResponseSend
from downconvert.serving.limits import FREE_SIZE
from downconvert.serving.places import Place
from downconvert.serving.request_memory import OneRequest
from records.files.sends import NOTHING


class Channel(Protocol):
    """A non-blocking socket, with or without TLS."""

    def recv(self, size: int, /) -> bytes: ...
    def recv_into(self, buffer: memoryview, /) -> int: ...
    def send(self, data: memoryview, /) -> int: ...


class ConnectionEndedError(Exception):
    """The client has gone."""


class Incoming:
    """A request as its bytes arrive. The length comes first. memory: what it takes."""

    __slots__ = ("_buffer", "_filled", "_size", "is_begun", "memory", "size_max")

    def __init__(self, size_max: int, memory: OneRequest) -> None:
        self.size_max = size_max
        self.memory = memory
        self._size: int | None = None  # from the length field; None: it has not arrived
        self._buffer = bytearray(LENGTH_SIZE)
        self._filled = 0
        self.is_begun = False  # a part of a request, or all of one, has arrived

    def settle(self, size_max: int, memory: OneRequest) -> None:
        """Its client is identified, and may send requests of this size. Called between requests."""
        assert not self.memory.taken
        self.size_max, self.memory = size_max, memory

    def space(self) -> memoryview | None:
        """The buffer for the next bytes. None: there is no memory for them now."""
        if self._filled == len(self._buffer) and not self._grow():
            return None
        return memoryview(self._buffer)[self._filled :]

    def received(self, count: int) -> memoryview | None:
        """Notes that `count` bytes have arrived in the space. Returns the frame once it is whole.

        Raises BadRequestError if the length is invalid."""
        self._filled += count
        self.is_begun = True
        if self._size is None:
            if self._filled < LENGTH_SIZE:
                return None
            size = int.from_bytes(self._buffer, signed=True)
            if not 0 < size <= self.size_max:
                raise BadRequestError(
                    f"a request of {size:,} bytes; the limit is {self.size_max:,}"
                )
            self._size, self._filled = size, 0
            self._buffer = bytearray(min(size, FREE_SIZE))
            return None
        return memoryview(self._buffer) if self._filled == self._size else None

    def begin(self, data: memoryview) -> None:
        """Takes bytes that arrived earlier: a part of a request, with less than FREE_SIZE bytes.

        Raises BadRequestError if the length is invalid."""
        while data:
            space = self.space()
            assert space is not None, "so few bytes need no memory"
            count = min(len(space), len(data))
            space[:count] = data[:count]
            self.received(count)
            data = data[count:]

    def release(self) -> None:
        """Frees the request when it is no longer needed. The next one may then arrive."""
        self.memory.release()
        if self._size is not None:
            self._buffer = bytearray(LENGTH_SIZE)
            self._size, self._filled = None, 0
            self.is_begun = False

    def _grow(self) -> bool:
        """Doubles the buffer, up to the request's size. So it never exceeds twice the received
        bytes."""
        assert self._size is not None
        more = min(self._filled, self._size - self._filled)
        if not self.memory.take(more):
            return False
        self._buffer += bytes(more)
        return True


class Connection:
    """A client, its channel, and the exchange under way."""

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
        "waits_for_more",
        "waits_to_write",
    )

    def __init__(
        self, client: Client, channel: Any, incoming: Incoming, place: Place, now: float
    ) -> None:
        self.client = client
        self.channel = channel
        self.incoming = incoming
        self.place = place
        # From the last byte of the request to the last byte of its response.
        self.exchange: Exchange | None = None
        self.frame: memoryview | None = None  # a request that is not handled yet
        self.ahead = NOTHING  # bytes that arrived with the last request, not yet parsed
        self.send: ResponseSend | None = None  # the response while it is sent
        self.started = now
        self.last_activity = now  # when the last byte was received or sent
        # When the current request, handshake or authentication began.
        self.request_started: float | None = None
        self.interest = 0  # the events that its selector waits for
        self.is_tls = False  # TLS may hold bytes that the selector does not see
        self.in_handshake = False  # whether the TLS handshake is under way
        self.is_muted = False  # its requests wait, because the client exceeded its rate
        self.authenticates = False  # whether it must still authenticate
        self.waits_to_write = False
        self.waits_for_more = False  # the system may delay its last response, to send more with it

    @property
    def goes_on(self) -> bool:
        """Whether the next request, or a part of it, is handled right after the current one. Then
        the system may delay the response until `flush`, to send others with it."""
        exchange = self.exchange
        if exchange is None or exchange.throttle or exchange.close_after_reply:
            return False
        return bool(self.ahead)

    def flush(self) -> None:
        """Makes the system send delayed responses, because no other follows at once."""
        if self.waits_for_more:
            self.waits_for_more = False
            self.channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def mute(self) -> None:
        """Delays its next request, because the client exceeded its rate. Responses are not
        delayed."""
        self.is_muted = True
        self.flush()

    def read(self) -> memoryview | None:
        """Reads available bytes of a request. Returns its frame once it is whole.

        Raises ConnectionEndedError, BadRequestError, and errors of the channel, including the one
        for no data now."""
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
        """Checks whether the client has gone, without reading. Raises ConnectionEndedError, except
        while a request is handled that is finished in any case, or if the client is muted and has
        sent another one before."""
        exchange = self.exchange
        if self.ahead if exchange is None else not exchange.may_be_abandoned:
            return
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
