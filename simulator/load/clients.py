"""Clients over TCP: each sends a request, reads the response, checks every byte, and sends the
next.

A process runs many clients. Old and current clients have processes of their own, so that latencies
of current ones do not include reading the responses of old ones."""

import heapq
import selectors
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from selectors import EVENT_READ
from typing import Any, Final

from records.units import KiB
from simulator.children import Parent, SimulationError
from simulator.measure import now

from .steps import LENGTH_SIZE, Step, new_digest

_READ_SIZE: Final = 256 * KiB
_SLOW_READS: Final = 50  # reads a second of a slow client
_SLOW_RECEIVE_BUFFER: Final = 32 * KiB  # so that the network holds little for a slow client
_POLL_INTERVAL: Final = 0.02  # seconds between two checks whether the parent ends the run
_CONNECT_TIMEOUT: Final = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """A client: its kind, its requests, and its speed.

    rate: bytes a second; 0 means as fast as it can. pause: seconds between a response and the next
    request."""

    kind: str
    scan: Sequence[Step]
    rate: int = 0
    pause: float = 0.0


@dataclass(slots=True)
class ClientStats:
    """The measurements of the clients of one kind. Times in seconds, sizes in bytes.

    first_bytes, latencies: of responses to clients that are not slow, from the request to the first
    and the last byte."""

    responses: int = 0
    size: int = 0
    records: int = 0
    wrong: int = 0
    first_bytes: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)


@dataclass(slots=True)
class RunStats:
    """The measurements of all clients of one process, by kind. seconds: from the first request to
    the end."""

    kinds: dict[str, ClientStats]
    seconds: float


class _Client:
    __slots__ = (
        "digest",
        "first_byte_at",
        "head",
        "read",
        "requested_at",
        "scans_done",
        "size",
        "socket",
        "spec",
        "step",
    )

    def __init__(self, spec: ClientSpec, connected: socket.socket) -> None:
        self.spec = spec
        self.socket = connected
        self.step = 0
        self.scans_done = 0
        self.head = b""
        self.size = self.read = 0  # of the current response, without its length field
        self.digest = new_digest()
        self.requested_at = self.first_byte_at = 0.0


class Clients:
    """Connected to a broker, until `run` has ended."""

    def __init__(self, address: tuple[str, int], specs: Sequence[ClientSpec]) -> None:
        self._selector = selectors.DefaultSelector()
        self._buffer = memoryview(bytearray(_READ_SIZE))
        self._paused: list[tuple[float, int, _Client]] = []  # by resume time
        self._stats = {spec.kind: ClientStats() for spec in specs}
        self._clients = [_Client(spec, _connected(address, spec)) for spec in specs]
        # The number of first scans that are not done, without those of slow clients.
        self._scans_left = sum(not spec.rate for spec in specs)

    def run(self, parent: Parent, seconds: float) -> RunStats:
        """Sends and reads until the parent ends the run. Sends one message when `seconds` have
        passed and every client that is not slow has made all its requests once."""
        started = now()
        has_reported = False
        for client in self._clients:
            self._selector.register(client.socket, EVENT_READ, client)
            self._ask(client)
        while not parent.has_sent():
            for key, _ in self._selector.select(self._timeout()):
                self._receive(key.data)
            self._wake()
            if not has_reported and not self._scans_left and now() - started >= seconds:
                has_reported = True
                parent.send("enough")
        parent.receive()
        run_stats = RunStats(self._stats, now() - started)
        for client in self._clients:
            client.socket.close()
        self._selector.close()
        return run_stats

    def _timeout(self) -> float:
        if not self._paused:
            return _POLL_INTERVAL
        return min(_POLL_INTERVAL, max(0.0, self._paused[0][0] - now()))

    def _pause(self, client: _Client, seconds: float) -> None:
        # The file descriptor breaks ties, because clients cannot be compared.
        heapq.heappush(self._paused, (now() + seconds, client.socket.fileno(), client))

    def _wake(self) -> None:
        moment = now()
        while self._paused and self._paused[0][0] <= moment:
            _, _, client = heapq.heappop(self._paused)
            if client.requested_at:
                self._selector.register(client.socket, EVENT_READ, client)
            else:
                self._ask(client)

    def _ask(self, client: _Client) -> None:
        client.head, client.size, client.read = b"", 0, 0
        client.digest.reset()
        request = client.spec.scan[client.step].request
        client.requested_at = now()
        if client.socket.send(request) != len(request):
            raise SimulationError(
                f"a connection took only a part of a request of {len(request)} bytes"
            )

    def _receive(self, client: _Client) -> None:
        spec = client.spec
        room = min(_READ_SIZE, max(1, spec.rate // _SLOW_READS)) if spec.rate else _READ_SIZE
        try:
            count = client.socket.recv_into(self._buffer[:room])
        except BlockingIOError:
            return
        except OSError as error:
            raise SimulationError(f"a client of {spec.kind} lost its connection: {error}") from None
        if not count:
            raise SimulationError(f"the broker closed a connection of a client of {spec.kind}")
        if not client.read and not client.head:
            client.first_byte_at = now()
        self._take(client, self._buffer[:count])
        if spec.rate:
            self._selector.unregister(client.socket)
            self._pause(client, count / spec.rate)

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
        finished, spec = now(), client.spec
        step, stats = spec.scan[client.step], self._stats[spec.kind]
        stats.responses += 1
        stats.size += LENGTH_SIZE + client.read
        stats.records += step.records
        stats.wrong += (LENGTH_SIZE + client.read, client.digest.digest()) != step[1:3]
        client.step += 1
        if client.step == len(spec.scan):
            client.step = 0
            client.scans_done += 1
            self._scans_left -= client.scans_done == 1 and not spec.rate
        if not spec.rate:
            stats.first_bytes.append(client.first_byte_at - client.requested_at)
            stats.latencies.append(finished - client.requested_at)
        if spec.pause and not spec.rate:
            client.requested_at = 0.0
            self._pause(client, spec.pause)
        else:
            self._ask(client)


def _connected(address: tuple[str, int], spec: ClientSpec) -> socket.socket:
    connected = socket.socket()
    if spec.rate:  # before it connects, so that the window is small
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_RECEIVE_BUFFER)
    connected.settimeout(_CONNECT_TIMEOUT)
    connected.connect(address)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setblocking(False)
    return connected


def run_clients(
    parent: Parent, address: tuple[str, int], specs: Sequence[ClientSpec], seconds: float
) -> RunStats:
    """In the child: connects, reports to the parent, and starts at the parent's message."""
    clients = Clients(address, specs)
    parent.send("ready")
    began: Any = parent.receive()
    assert began == "begin"
    return clients.run(parent, seconds)
