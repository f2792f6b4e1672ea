"""The sending side: one thread, one selector, and a turn for every open response.

The broker's network threads work like this, and lazy conversion is made for it: a turn converts and
writes at most `WRITE_BUDGET` bytes, a chunk at a time. After `TURN` seconds of turns it looks for
new requests, so that no consumer waits long for another one's conversion. A request is the number
of a fetch. The response is its size, then its bytes."""

import selectors
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from time import perf_counter
from typing import Final

from records.files.sends import PendingBytes, Send
from records.units import KiB

from .fetches import Fetch

REQUEST: Final = Struct(">i")
RESPONSE_HEAD: Final = Struct(">q")
WRITE_BUDGET: Final = 128 * KiB  # as in the broker's network threads
TURN: Final = 0.0005  # seconds, as in these threads

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@dataclass(slots=True)
class Tally:
    """The sender's counts. Sizes are bytes."""

    responses: int = 0
    promised: int = 0
    sent: int = 0
    broken: int = 0  # responses with another size than promised


class _Connection:
    """One consumer's connection: a request being read, or a response being sent."""

    __slots__ = ("head", "request", "send", "sent", "socket", "waits")

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.request = bytearray()
        self.head = PendingBytes()
        self.send: Send | None = None
        self.sent = 0  # bytes of this response
        self.waits = False  # for a writable channel


class Driver:
    """Answers requests on the sockets until the consumers have closed all of them."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        fetches: Sequence[Fetch],
        respond: Callable[[Fetch], Send],
    ) -> None:
        self.tally = Tally()
        self._fetches = fetches
        self._respond = respond
        self._sending: deque[_Connection] = deque()  # with writable channels
        self._selector = selectors.DefaultSelector()
        for connected in sockets:
            connected.setblocking(False)
            self._selector.register(connected, _READ, _Connection(connected))

    def run(self) -> Tally:
        selector = self._selector
        with selector:
            while selector.get_map():
                for key, _ in selector.select(0.0 if self._sending else None):
                    self._guarded(key.data, self._look)
                until = perf_counter() + TURN
                while self._sending and perf_counter() < until:
                    self._guarded(self._sending.popleft(), self._write)
        return self.tally

    def _guarded(self, connection: _Connection, step: Callable[[_Connection], None]) -> None:
        try:
            step(connection)
        except ConnectionError:
            self._close(connection)

    def _look(self, connection: _Connection) -> None:
        """Handles a ready connection: it has a request, or its channel is writable."""
        if connection.send is None:
            self._read(connection)
        elif connection.waits:
            connection.waits = False
            self._selector.modify(connection.socket, _READ, connection)
            self._sending.append(connection)

    def _read(self, connection: _Connection) -> None:
        """Reads a request. Its response begins at once, as in a broker."""
        data = connection.socket.recv(REQUEST.size - len(connection.request))
        if not data:
            self._close(connection)
            return
        connection.request += data
        if len(connection.request) < REQUEST.size:
            return
        fetch = self._fetches[REQUEST.unpack(connection.request)[0]]
        connection.request.clear()
        send = connection.send = self._respond(fetch)
        connection.head.left = memoryview(RESPONSE_HEAD.pack(send.size))
        connection.sent = 0
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        send = connection.send
        assert send is not None
        written = connection.head.write_to(connection.socket)
        if not connection.head.left and not send.completed:
            written = send.write_to(connection.socket, WRITE_BUDGET)
            connection.sent += written
        if send.completed and not connection.head.left:
            self._end(connection, send)
        elif written:
            self._sending.append(connection)
        else:
            connection.waits = True
            self._selector.modify(connection.socket, _WRITE, connection)

    def _end(self, connection: _Connection, send: Send) -> None:
        tally = self.tally
        tally.responses += 1
        tally.promised += send.size
        tally.sent += connection.sent
        tally.broken += connection.sent != send.size
        self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        connection.send = None

    def _close(self, connection: _Connection) -> None:
        self._forget(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()
