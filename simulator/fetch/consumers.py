"""The reading side: consumers that fetch, read as fast as allowed, and check every byte.

They run in a process of their own, so that their cost is not measured with the sender's. Each reads
the whole log once, from a different starting point. Slow ones read at a fixed rate until the others
are done. Meanwhile their responses hold memory in the sender."""

import heapq
import selectors
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import xxhash

from records.units import KiB
from simulator.children import SimulationError
from simulator.measure import now

from .driver import REQUEST, RESPONSE_HEAD

_BUFFER_SIZE: Final = 256 * KiB
_SLOW_READ: Final = 16 * KiB  # bytes at a time


@dataclass(slots=True)
class Reading:
    """The consumers' measurements. Times are seconds. Times of fetches are those of fast consumers
    only."""

    seconds: float = 0.0  # until the last fast consumer was done
    size: int = 0  # bytes of records in the responses that all consumers had read until then
    records: int = 0
    responses: int = 0
    wrong: int = 0  # responses that differ from the planned ones
    first_bytes: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)


class Expected(NamedTuple):
    """The expected response."""

    size: int  # bytes
    digest: bytes
    records: int


class _Consumer:
    """One connection, and its current response."""

    __slots__ = (
        "digest",
        "fetch",
        "first_byte_at",
        "head",
        "rate",
        "read",
        "requested_at",
        "size",
        "socket",
        "to_read",
    )

    def __init__(self, connected: socket.socket, fetch: int, to_read: int, rate: int) -> None:
        self.socket = connected
        self.fetch = fetch  # the number of the current one
        self.to_read = to_read  # responses; 0: until the others are done
        self.rate = rate  # bytes a second; 0: as fast as they come
        self.head = bytearray()
        self.size = self.read = 0  # bytes of the response, promised and read
        self.digest = xxhash.xxh3_128()
        self.requested_at = self.first_byte_at = 0.0


class Consumers:
    """Requests fetches by number: the index of their response in `expected`."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        expected: Sequence[Expected],
        slow: int,
        rate: int,
        progress: Callable[[int], None],
    ) -> None:
        """The last `slow` of the sockets belong to slow consumers. `progress` is called with the
        number of responses so far."""
        self._reading = Reading()
        self._expected = expected
        self._progress = progress
        self._buffer = memoryview(bytearray(_BUFFER_SIZE))
        self._selector = selectors.DefaultSelector()
        self._paused: list[tuple[float, int, _Consumer]] = []  # slow ones, by resume time
        self._fast = len(sockets) - slow
        self._consumers = [
            _Consumer(
                connected,
                number * len(expected) // len(sockets),
                len(expected) if number < self._fast else 0,
                0 if number < self._fast else rate,
            )
            for number, connected in enumerate(sockets)
        ]

    def run(self) -> Reading:
        started = now()
        with self._selector:
            for consumer in self._consumers:
                self._selector.register(consumer.socket, selectors.EVENT_READ, consumer)
                self._ask(consumer)
            while self._fast:
                for key, _ in self._selector.select(self._resume_due()):
                    self._read(key.data)
        self._reading.seconds = now() - started
        for consumer in self._consumers:
            consumer.socket.close()  # slow ones in the middle of a response, as real consumers do
        return self._reading

    def _ask(self, consumer: _Consumer) -> None:
        consumer.head.clear()
        consumer.digest.reset()
        consumer.read = 0
        consumer.requested_at = now()
        consumer.socket.sendall(REQUEST.pack(consumer.fetch))

    def _resume_due(self) -> float | None:
        """Resumes slow consumers that are due. Returns the seconds until the next one is."""
        while self._paused:
            wait = self._paused[0][0] - now()
            if wait > 0:
                return wait
            consumer = heapq.heappop(self._paused)[2]
            self._selector.register(consumer.socket, selectors.EVENT_READ, consumer)
        return None

    def _read(self, consumer: _Consumer) -> None:
        room = _SLOW_READ if consumer.rate else _BUFFER_SIZE
        count = consumer.socket.recv_into(self._buffer[:room])
        if not count:
            raise SimulationError("the sender closed a connection in the middle of a response")
        data = self._buffer[:count]
        missing = RESPONSE_HEAD.size - len(consumer.head)
        if missing:
            consumer.head += data[:missing]
            data = data[missing:]
            if len(consumer.head) < RESPONSE_HEAD.size:
                return
            consumer.size = RESPONSE_HEAD.unpack(consumer.head)[0]
        if data and not consumer.read:
            consumer.first_byte_at = now()
        consumer.digest.update(data)
        consumer.read += len(data)
        if consumer.read >= consumer.size:
            self._finish(consumer)
        if consumer.rate:
            self._selector.unregister(consumer.socket)
            # The file descriptor breaks ties, because consumers cannot be compared.
            wake = (now() + count / consumer.rate, consumer.socket.fileno(), consumer)
            heapq.heappush(self._paused, wake)

    def _finish(self, consumer: _Consumer) -> None:
        reading, expected = self._reading, self._expected[consumer.fetch]
        reading.responses += 1
        reading.size += consumer.read
        reading.records += expected.records
        reading.wrong += (consumer.read, consumer.digest.digest()) != (
            expected.size,
            expected.digest,
        )
        self._progress(reading.responses)
        consumer.fetch = (consumer.fetch + 1) % len(self._expected)
        if not consumer.rate:
            finished = now()
            reading.latencies.append(finished - consumer.requested_at)
            first = consumer.first_byte_at if consumer.read else finished
            reading.first_bytes.append(first - consumer.requested_at)
            consumer.to_read -= 1
            if not consumer.to_read:
                self._fast -= 1
                self._selector.unregister(consumer.socket)
                consumer.socket.close()
                return
        self._ask(consumer)
