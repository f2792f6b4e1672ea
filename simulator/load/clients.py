"""Clients of a simulation, over TCP: each asks, reads, checks every byte, and asks again.

One process has many of them, of one generation, so that the clients of today do not wait behind
the work of reading what the old ones get.

Not here: what they ask and must get (load_steps.py)."""

import heapq
import selectors
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from selectors import EVENT_READ
from typing import Any, Final

from records.units import KiB
from simulator.children import Line, SimulationError
from simulator.measure import now

from .steps import LENGTH_SIZE, Step, new_digest

_READ_SIZE: Final = 256 * KiB
_SLOW_READS: Final = 50  # a second, by who reads slowly
_SLOW_RECEIVE_BUFFER: Final = 32 * KiB  # what the network holds for them is small
_PATIENCE: Final = 0.02  # seconds until the next look for the end
_CONNECT_TIMEOUT: Final = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Seat:
    """A client to be: its kind, its way through the log, and how it reads.

    rate: bytes a second; 0: as fast as it can. pause: seconds between an answer and the next
    request."""

    kind: str
    walk: Sequence[Step]
    rate: int = 0
    pause: float = 0.0


@dataclass(slots=True)
class Heard:
    """What the clients of a kind measured. Times in seconds, sizes in bytes.

    first_bytes, latencies: of answers to clients that are not slow, from the request to the first
    and the last byte."""

    answers: int = 0
    size: int = 0
    records: int = 0
    wrong: int = 0
    first_bytes: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Listening:
    """All of one process. seconds: from the first request to the end."""

    kinds: dict[str, Heard]
    seconds: float


class _Client:
    __slots__ = (
        "asked_at",
        "digest",
        "first_byte_at",
        "head",
        "read",
        "seat",
        "size",
        "socket",
        "step",
        "walks",
    )

    def __init__(self, seat: Seat, connected: socket.socket) -> None:
        self.seat = seat
        self.socket = connected
        self.step = 0
        self.walks = 0  # ways that were gone to their end
        self.head = b""
        self.size = self.read = 0  # of the answer under way, behind its length
        self.digest = new_digest()
        self.asked_at = self.first_byte_at = 0.0


class Clients:
    """Connected to a broker, until `run` has ended."""

    def __init__(self, address: tuple[str, int], seats: Sequence[Seat]) -> None:
        self._selector = selectors.DefaultSelector()
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._resting: list[tuple[float, int, _Client]] = []  # when they go on
        self._heard = {seat.kind: Heard() for seat in seats}
        self._clients = [_Client(seat, _connected(address, seat)) for seat in seats]
        self._first_walks = sum(not seat.rate for seat in seats)  # that are under way

    def run(self, line: Line, seconds: float) -> Listening:
        """Asks and reads. Tells once when it has been at it for long enough, and every client that
        is not slow has gone all its way; goes on until it hears that all others have."""
        started = now()
        is_enough = False
        for client in self._clients:
            self._selector.register(client.socket, EVENT_READ, client)
            self._ask(client)
        while not line.has_heard():
            for key, _ in self._selector.select(self._timeout()):
                self._receive(key.data)
            self._wake()
            if not is_enough and not self._first_walks and now() - started >= seconds:
                is_enough = True
                line.tell("enough")
        line.hear()
        listening = Listening(self._heard, now() - started)
        for client in self._clients:
            client.socket.close()
        self._selector.close()
        return listening

    def _timeout(self) -> float:
        if not self._resting:
            return _PATIENCE
        return min(_PATIENCE, max(0.0, self._resting[0][0] - now()))

    def _rest(self, client: _Client, seconds: float) -> None:
        # The number of the socket decides between two that go on at the same time.
        heapq.heappush(self._resting, (now() + seconds, client.socket.fileno(), client))

    def _wake(self) -> None:
        moment = now()
        while self._resting and self._resting[0][0] <= moment:
            _, _, client = heapq.heappop(self._resting)
            if client.asked_at:
                self._selector.register(client.socket, EVENT_READ, client)
            else:
                self._ask(client)

    def _ask(self, client: _Client) -> None:
        client.head, client.size, client.read = b"", 0, 0
        client.digest.reset()
        request = client.seat.walk[client.step].request
        client.asked_at = now()
        if client.socket.send(request) != len(request):
            raise SimulationError("a connection does not take a request")

    def _receive(self, client: _Client) -> None:
        seat = client.seat
        room = min(_READ_SIZE, max(1, seat.rate // _SLOW_READS)) if seat.rate else _READ_SIZE
        try:
            count = client.socket.recv_into(self._buffer[:room])
        except BlockingIOError:
            return
        except OSError as error:
            raise SimulationError(f"a client of {seat.kind} lost its connection: {error}") from None
        if not count:
            raise SimulationError(f"the broker closed a connection of a client of {seat.kind}")
        if not client.read and not client.head:
            client.first_byte_at = now()
        self._take(client, self._buffer[:count])
        if seat.rate:
            self._selector.unregister(client.socket)
            self._rest(client, count / seat.rate)

    def _take(self, client: _Client, data: memoryview) -> None:
        missing = LENGTH_SIZE - len(client.head)
        if missing:
            client.head += data[:missing]
            data = data[missing:]
            if len(client.head) < LENGTH_SIZE:
                return
            client.size = int.from_bytes(client.head)
        client.digest.update(data)
        client.read += len(data)
        if client.read >= client.size:
            self._finish(client)

    def _finish(self, client: _Client) -> None:
        finished, seat = now(), client.seat
        step, heard = seat.walk[client.step], self._heard[seat.kind]
        heard.answers += 1
        heard.size += LENGTH_SIZE + client.read
        heard.records += step.records
        heard.wrong += (LENGTH_SIZE + client.read, client.digest.digest()) != step[1:3]
        client.step += 1
        if client.step == len(seat.walk):
            client.step = 0
            client.walks += 1
            self._first_walks -= client.walks == 1 and not seat.rate
        if not seat.rate:
            heard.first_bytes.append(client.first_byte_at - client.asked_at)
            heard.latencies.append(finished - client.asked_at)
        if seat.pause and not seat.rate:
            client.asked_at = 0.0
            self._rest(client, seat.pause)
        else:
            self._ask(client)


def _connected(address: tuple[str, int], seat: Seat) -> socket.socket:
    connected = socket.socket()
    if seat.rate:  # before it connects, so that the window is small
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_RECEIVE_BUFFER)
    connected.settimeout(_CONNECT_TIMEOUT)
    connected.connect(address)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setblocking(False)
    return connected


def listen_to(
    line: Line, address: tuple[str, int], seats: Sequence[Seat], seconds: float
) -> Listening:
    """The child's work: connects, says so, and begins when it is told to."""
    clients = Clients(address, seats)
    line.tell("ready")
    began: Any = line.hear()
    assert began == "begin"
    return clients.run(line, seconds)
