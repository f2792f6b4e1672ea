"""A consumer that only reads and counts bytes, so that the server is measured and not the client.

The first time, it parses the responses of a partition to find the next offset. Later it sends the
same requests again, and reads the bytes of the responses. Their number must be the same."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from struct import Struct
from time import perf_counter
from types import TracebackType
from typing import Final, Protocol, Self

from downconvert.protocol.decoder import Cursor, decode, reader
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message, is_flexible
from records import MemoryRecords
from records.units import MiB

LENGTH: Final = Struct(">i")
BUFFER_SIZE: Final = MiB
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Drained:
    """One time through a partition."""

    records: int
    size: int  # bytes of records
    seconds: float

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.size / self.seconds

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def paired(ours: Sequence[Drained], theirs: Sequence[Drained]) -> float:
    """The median of the ratios of records a second, round by round."""
    pairs = zip(ours, theirs, strict=True)
    return median(a.records_per_second / b.records_per_second for a, b in pairs)


@dataclass(frozen=True, slots=True)
class Step:
    """A request, its frame with its length, and the size of its response."""

    request: bytes
    size: int  # bytes of the response, without its length


class Closes(ABC):
    """Closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Wire(Closes):
    """A connection that sends requests, and receives whole responses."""

    def __init__(self, address: Address, *, buffered: bool = True) -> None:
        """`buffered`: it drains responses."""
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(BUFFER_SIZE if buffered else 0))

    def close(self) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self.socket.recv_into(view)
            if not count:
                raise EOFError("the server has closed the connection")
            view = view[count:]
        return data

    def response(self) -> bytearray:
        """A whole response, without its length."""
        return self.exactly(LENGTH.unpack(self.exactly(LENGTH.size))[0])

    def drain(self) -> int:
        """Reads and discards a response. Returns its size, without its length."""
        size = int(LENGTH.unpack(self.exactly(LENGTH.size))[0])
        left = size
        while left:
            count = self.socket.recv_into(self._buffer, min(left, BUFFER_SIZE))
            if not count:
                raise EOFError("the server has closed the connection")
            left -= count
        return size

    def ask(self, api: ApiKey, version: int, body: Message) -> Message:
        self.send(request(api, version, body))
        return parsed(api, version, self.response())


def request(api: ApiKey, version: int, body: Message) -> bytes:
    """A request's frame, with its length."""
    flexible = is_flexible(api, version)
    header = Message(
        request_api_key=api, request_api_version=version, correlation_id=7, client_id="bench"
    )
    frame = encode("RequestHeader", 2 if flexible else 1, header)
    frame += encode(f"{api.name}Request", version, body)
    return LENGTH.pack(len(frame)) + frame


def parsed(api: ApiKey, version: int, response: bytearray) -> Message:
    """Decodes a response without its length."""
    data = memoryview(response)
    cursor = Cursor(data)
    flexible = api is not ApiKey.ApiVersions and is_flexible(api, version)
    reader("ResponseHeader", int(flexible))(cursor)
    return decode(f"{api.name}Response", version, data[cursor.position :])


def fetch(
    version: int, topic: str, offset: int, max_bytes: int, partition: int = 0, wait_ms: int = 0
) -> bytes:
    """A fetch of one partition, with a maximum wait for a record."""
    fetched = Message(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        log_start_offset=-1,
    )
    body = Message(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[Message(topic=topic, partitions=[fetched])],
        forgotten_topics_data=[],
        rack_id="",
    )
    return request(ApiKey.Fetch, version, body)


def scan(
    wire: Wire, version: int, topic: str, max_bytes: int, partition: int = 0
) -> Iterator[tuple[Step, int]]:
    """Reads through a partition that has a record at every offset. Yields each step, and the
    records that it returned."""
    offset = 0
    while True:
        frame = fetch(version, topic, offset, max_bytes, partition)
        wire.send(frame)
        response = wire.response()
        (found,) = parsed(ApiKey.Fetch, version, response).responses[0].partitions
        if found.error_code:
            raise RuntimeError(f"{topic}: error {found.error_code} at offset {offset}")
        data = bytes(found.records or b"")
        if not data:
            return
        yield Step(frame, len(response)), end_of(data) - offset
        offset = end_of(data)


def end_of(data: bytes) -> int:
    """The offset after the last whole batch or message."""
    end = 0
    for batch in MemoryRecords(data).batches():
        end = batch.last_offset + 1
    return end


class Drain:
    """The same fetches again and again."""

    def __init__(self, wire: Wire, version: int, topic: str, max_bytes: int) -> None:
        self._wire = wire
        scanned = list(scan(wire, version, topic, max_bytes))
        self.steps = [step for step, _ in scanned]
        self.records = sum(count for _, count in scanned)

    def once(self) -> Drained:
        """Reads the partition once more. RuntimeError: a response has another size."""
        total = 0
        started = perf_counter()
        for step in self.steps:
            self._wire.send(step.request)
            size = self._wire.drain()
            if size != step.size:
                raise RuntimeError(f"a response of {size} bytes, the first time it had {step.size}")
            total += size
        return Drained(self.records, total, perf_counter() - started)


def by_turns(
    servers: tuple[Address, Address],
    version: int,
    topic: str,
    max_bytes: int,
    warm_up: int,
    rounds: int,
) -> tuple[list[Drained], list[Drained]]:
    """Rounds of two servers that take turns, after some to warm up."""
    with Wire(servers[0]) as first, Wire(servers[1]) as second:
        drains = [Drain(wire, version, topic, max_bytes) for wire in (first, second)]
        return taking_turns((drains[0], drains[1]), warm_up, rounds)


class Round(Protocol):
    """Something to be timed."""

    def once(self) -> Drained: ...


def taking_turns(
    timed: tuple[Round, Round], warm_up: int, rounds: int
) -> tuple[list[Drained], list[Drained]]:
    """Rounds of two contenders in turns, after some of each to warm up."""
    for one in timed:
        for _ in range(warm_up):
            one.once()
    pairs = [[one.once() for one in timed] for _ in range(rounds)]
    return [a for a, _ in pairs], [b for _, b in pairs]
