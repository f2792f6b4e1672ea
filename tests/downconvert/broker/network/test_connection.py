import socket
from types import SimpleNamespace
from typing import Any

import pytest

from downconvert.broker.exchange import Client
from downconvert.broker.network.connection import Connection, ConnectionEndedError, Incoming
from downconvert.protocol.errors import BadRequestError
from downconvert.serving.limits import FREE_SIZE
from downconvert.serving.places import Place, Places
from downconvert.serving.request_memory import RequestMemory

MiB = 1024 * 1024


class Bytes:
    """A channel that has some bytes, and gives so many at a time."""

    def __init__(self, data: bytes, at_a_time: int = 1 << 30, *, ends: bool = False) -> None:
        self.data = data
        self._at_a_time = at_a_time
        self._ends = ends

    def recv(self, size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(buffer[: self.recv_into(memoryview(buffer))])

    def recv_into(self, buffer: memoryview) -> int:
        taken, self.data = self._split(min(len(buffer), self._at_a_time))
        if not taken and not self._ends:
            raise BlockingIOError
        buffer[: len(taken)] = taken
        return len(taken)

    def _split(self, at: int) -> tuple[bytes, bytes]:
        return self.data[:at], self.data[at:]


def a_place() -> Place:
    return Places().take("a", 1, 1)


def connection(channel: Bytes, memory: int = 64 * MiB, size_max: int = 100 * MiB) -> Connection:
    return Connection(
        Client(1, "a"), channel, Incoming(size_max, RequestMemory(memory).of("a")), a_place(), 0.0
    )


def read(client: Connection) -> bytes | None:
    frame = client.read()
    return None if frame is None else bytes(frame)


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4) + frame


@pytest.mark.parametrize("at_a_time", [1, 3, 5000, 1 << 30])
@pytest.mark.parametrize("size", [1, 100, FREE_SIZE, FREE_SIZE + 1, 100_000])
def test_a_frame_is_the_same_however_its_bytes_arrive(size: int, at_a_time: int) -> None:
    frame = bytes(n % 251 for n in range(size))
    assert read(connection(Bytes(framed(frame), at_a_time))) == frame


@pytest.mark.parametrize("at_a_time", [1, 3, 20, 1 << 30])
def test_requests_that_come_at_once_are_read_one_by_one(at_a_time: int) -> None:
    frames = [bytes([n % 251]) * (n * n % 300 + 1) for n in range(100)]
    client = connection(Bytes(b"".join(map(framed, frames)), at_a_time))
    for frame in frames:
        assert read(client) == frame
        client.incoming.release()
    with pytest.raises(BlockingIOError):
        client.read()


def test_only_a_few_requests_ahead_are_read_from_the_channel() -> None:
    channel = Bytes(framed(b"first") + framed(bytes(10 * FREE_SIZE)) + framed(b"third"))
    before = len(channel.data)
    client = connection(channel)
    assert read(client) == b"first"
    assert before - len(channel.data) <= FREE_SIZE
    client.incoming.release()
    assert read(client) == bytes(10 * FREE_SIZE)
    client.incoming.release()
    assert read(client) == b"third"


def test_a_length_that_is_refused_is_refused_after_a_request_too() -> None:
    client = connection(Bytes(framed(b"first") + (1001).to_bytes(4) + b"x" * 1001), size_max=1000)
    assert read(client) == b"first"
    client.incoming.release()
    with pytest.raises(BadRequestError, match="a request of"):
        client.read()


@pytest.mark.parametrize("length", [0, -1, -(2**31), 1001, 2**31 - 1])
def test_a_length_that_no_request_has_is_refused(length: int) -> None:
    client = connection(Bytes(length.to_bytes(4, signed=True) + b"more"), size_max=1000)
    with pytest.raises(BadRequestError, match="a request of"):
        client.read()


def test_a_claimed_length_allocates_no_memory() -> None:
    memory = RequestMemory(0)
    client = Connection(
        Client(1, "a"),
        Bytes((2**31 - 1).to_bytes(4) + b"x" * 100),
        Incoming(2**31 - 1, memory.of("a")),
        a_place(),
        0.0,
    )
    with pytest.raises(BlockingIOError):
        client.read()
    space = client.incoming.space()
    assert space is not None
    assert len(space) == FREE_SIZE - 100


def test_a_buffer_is_at_most_twice_what_has_arrived() -> None:
    client = connection(Bytes((64 * MiB).to_bytes(4) + bytes(MiB + 1)))
    with pytest.raises(BlockingIOError):
        client.read()
    space = client.incoming.space()
    assert space is not None
    assert len(space) <= MiB + 1


def test_a_request_waits_for_memory_and_gives_it_back() -> None:
    memory = RequestMemory(FREE_SIZE)
    another = memory.of("a")
    assert another.take(2 * FREE_SIZE)
    frame = b"x" * 3 * FREE_SIZE
    client = Connection(
        Client(1, "a"), Bytes(framed(frame)), Incoming(MiB, memory.of("a")), a_place(), 0.0
    )
    assert client.read() is None
    assert client.incoming.space() is None
    another.release()
    assert read(client) == frame
    client.incoming.release()
    assert memory.free == FREE_SIZE


def test_the_end_of_a_connection_is_said() -> None:
    with pytest.raises(ConnectionEndedError):
        connection(Bytes(b"\0\0", ends=True)).read()


@pytest.mark.parametrize("at_a_time", [1, 3, 1 << 30])
def test_the_largest_request_is_read_and_one_byte_more_is_refused(at_a_time: int) -> None:
    client = connection(Bytes(framed(bytes(1000)) * 2, at_a_time), size_max=1000)
    for _ in range(2):
        assert read(client) == bytes(1000)
        client.incoming.release()
    with pytest.raises(BadRequestError, match="a request of 1,001 bytes; the limit is 1,000"):
        connection(Bytes(framed(bytes(1001)), at_a_time), size_max=1000).read()


def test_a_request_gives_back_the_memory_that_it_took_and_no_more() -> None:
    memory = RequestMemory(16 * FREE_SIZE)
    frames = [bytes(9 * FREE_SIZE), b"small", bytes(2 * FREE_SIZE), b"small"]
    client = Connection(
        Client(1, "a"),
        Bytes(b"".join(map(framed, frames)), 5000),
        Incoming(MiB, memory.of("a")),
        a_place(),
        0.0,
    )
    for frame in frames:
        assert read(client) == frame
        client.incoming.release()
        client.incoming.release()
    assert memory.free == 16 * FREE_SIZE
    assert memory.of("a").take(16 * FREE_SIZE + 1)
    assert not memory.of("b").take(1)  # the connection was not favoured


@pytest.mark.parametrize(
    ("throttle", "closes", "ahead", "goes_on"),
    [
        (0.0, False, b"x", True),
        (0.0, False, b"", False),
        (1.0, False, b"x", False),
        (0.0, True, b"x", False),
    ],
)
def test_a_response_waits_for_the_next_one_only_if_that_comes_at_once(
    throttle: float, closes: bool, ahead: bytes, goes_on: bool
) -> None:
    client = connection(Bytes(b""))
    client.ahead = memoryview(ahead)
    assert not client.goes_on  # without an exchange
    exchange: Any = SimpleNamespace(throttle=throttle, close_after_reply=closes)
    client.exchange = exchange
    assert client.goes_on is goes_on


def test_bytes_that_the_system_holds_back_are_sent_once() -> None:
    made: list[tuple[int, ...]] = []
    channel: Any = SimpleNamespace(setsockopt=lambda *args: made.append(args))
    client = connection(channel)
    client.flush()
    client.waits_for_more = True
    for _ in range(2):
        client.flush()
    assert made == [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]


def test_checking_for_a_client_consumes_no_bytes() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        channel: Any = ours
        client = connection(channel)
        client.check_open()
        theirs.sendall(framed(b"next"))
        for _ in range(2):
            client.check_open()
        assert read(client) == b"next"
        theirs.close()
        with pytest.raises(ConnectionEndedError):
            client.check_open()
