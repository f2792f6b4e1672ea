"""Responses of a broker, from bytes that the test decides: what is kept, passed on, or refused."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from downconvert.gateway.config import GatewayConfig, Limits
from downconvert.gateway.network.sockets.ended import SilentBrokerError
from downconvert.gateway.network.upstream import INLINE_MAX, Upstream
from downconvert.gateway.session.exchanges import Ask, ThrottleField
from downconvert.gateway.session.spool import MEMORY_MAX
from downconvert.gateway.topology import Address
from downconvert.protocol.encoder import encode
from downconvert.protocol.errors import BadRequestError
from downconvert.protocol.schemas import ApiKey, Message
from records.budget import MemoryBudget
from tests.downconvert.gateway.serving import LENGTH

BROKER = Address("broker.test", 9092)
REQUEST_TIMEOUT, CONNECT_TIMEOUT, WAIT = 30.0, 0.4, 7.0


class Timer:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Stream:
    """A broker's stream with bytes that have arrived, and the client's with those that it got."""

    is_plain = False

    def __init__(self, data: bytes = b"", *, has_ended: bool = False) -> None:
        self.available = data
        self.has_ended = has_ended
        self.sent = bytearray()
        self.limits: list[float] = []
        self.deadline = Timer()
        self.drained = 0

    async def ensure(self, size: int, limit: float) -> None:
        self.limits.append(limit - asyncio.get_running_loop().time())
        if len(self.available) < size:
            raise TimeoutError

    def consume(self, size: int) -> None:
        self.available = self.available[size:]

    async def receive_into(self, sink: Callable[[memoryview], object], size: int) -> None:
        piece = self.available[: min(size, 1000)]
        sink(memoryview(piece))
        self.consume(len(piece))
        if len(piece) < size and self.available:
            await self.receive_into(sink, size - len(piece))

    def send(self, data: bytes | bytearray) -> None:
        self.sent += data

    async def drain(self) -> None:
        self.drained += 1


def upstream(stream: Stream, pool: Any = None, **options: Any) -> Upstream:
    limits = Limits(request_timeout=REQUEST_TIMEOUT, connect_timeout=CONNECT_TIMEOUT)
    spool_dir = options.pop("spool_dir", None)
    config = GatewayConfig(bootstrap=(BROKER,), limits=limits, spool_dir=spool_dir)
    streams: Any = stream
    return Upstream(streams, BROKER, config, pool, **options)


def framed(correlation_id: int, *rest: bytes) -> bytes:
    data = correlation_id.to_bytes(4) + b"".join(rest)
    return LENGTH.pack(len(data)) + data


def forward(
    data: bytes,
    seconds: float = 0.0,
    field: ThrottleField | None = None,
    *,
    has_ended: bool = False,
) -> tuple[bytes, bytes, list[int]]:
    """The client's bytes, the rest of the broker's bytes, and the charged sizes."""
    stream, client, charged = Stream(data), Stream(has_ended=has_ended), list[int]()

    def charge(size: int) -> float:
        assert not client.sent
        charged.append(size)
        return seconds

    clients: Any = client
    asyncio.run(upstream(stream).forward_response(clients, 9, WAIT, charge, field))
    return bytes(client.sent), bytes(stream.available), charged


def test_a_response_is_forwarded_whole_and_charged_before() -> None:
    data = framed(9, bytes(3000))
    assert forward(data + b"next") == (data, b"next", [len(data)])
    assert forward(data + b"next", has_ended=True) == (b"", b"next", [len(data)])


@pytest.mark.parametrize(
    ("has_tags", "seconds", "theirs", "milliseconds"),
    [
        (False, 2.5, 700, 2500),
        (True, 2.5, 700, 2500),
        (False, 2.5, 7000, 7000),  # the cluster's is longer
        (False, 0.0, 700, 700),
        (False, 0.0, -1, -1),  # not ours to change
    ],
)
def test_a_throttle_time_is_written_to_its_field(
    has_tags: bool, seconds: float, theirs: int, milliseconds: int
) -> None:
    tags, rest = b"\0" * has_tags, b"the rest"
    data = framed(9, tags, theirs.to_bytes(4, signed=True), rest)
    wanted = framed(9, tags, milliseconds.to_bytes(4, signed=True), rest)
    found, left, charged = forward(data + b"next", seconds, ThrottleField(4 + has_tags))
    assert (found, left, charged) == (wanted, b"next", [len(data)])


@pytest.mark.parametrize(
    "data",
    [
        framed(9, b"\1", bytes(4), b"the rest"),  # a tag that is not known
        framed(9, b"\0", bytes(3)),  # too short for the field
        framed(9),
    ],
)
def test_a_response_without_that_place_is_forwarded_as_it_is(data: bytes) -> None:
    found, left, _ = forward(data + b"next", 2.5, ThrottleField(5))
    assert (found, left) == (data, b"next")


def test_a_response_that_ends_with_its_throttle_time_gets_it() -> None:
    found, left, _ = forward(framed(9, bytes(4)) + b"next", 2.5, ThrottleField(4))
    assert (found, left) == (framed(9, (2500).to_bytes(4)), b"next")


def test_the_response_to_another_request_is_not_forwarded() -> None:
    with pytest.raises(BadRequestError, match="another request"):
        forward(framed(8, bytes(10)))


@pytest.mark.parametrize("size", [3, -1, 0])
def test_a_response_too_short_for_its_header_is_refused(size: int) -> None:
    with pytest.raises(BadRequestError, match=f"a response of {size} bytes"):
        forward(LENGTH.pack(size) + bytes(20))
    with pytest.raises(BadRequestError, match=f"a response of {size} bytes"):
        asyncio.run(upstream(Stream(LENGTH.pack(size) + bytes(20))).response(0.0))


def test_a_silent_broker_is_given_its_time() -> None:
    async def use() -> None:
        stream = Stream(b"abc")
        clients: Any = Stream()
        with pytest.raises(SilentBrokerError, match="has not answered in 37 s"):
            await upstream(stream).response(WAIT)
        with pytest.raises(SilentBrokerError, match="has not answered in 37 s"):
            await upstream(stream).forward_response(clients, 9, WAIT, lambda _: 0.0)
        stream.available = LENGTH.pack(20)  # it has begun
        with pytest.raises(SilentBrokerError, match="has not answered in 30 s"):
            await upstream(stream).forward_response(clients, 9, WAIT, lambda _: 0.0)
        assert stream.limits == pytest.approx([37, 37, 37, 30], abs=0.5)

    asyncio.run(use())


@pytest.mark.parametrize(
    ("size", "held", "files"),
    [(MEMORY_MAX, 0, 0), (MEMORY_MAX + 1, MEMORY_MAX + 1, 0), (3 * MEMORY_MAX, 0, 1)],
)
def test_a_response_is_kept_in_memory_while_the_budget_lasts(
    tmp_path: Path, size: int, held: int, files: int
) -> None:
    async def use() -> None:
        stream, budget = Stream(framed(9, bytes(size - 4)) + b"next"), MemoryBudget(2 * MEMORY_MAX)
        one = upstream(stream, budget=budget, spool_dir=str(tmp_path))
        spool = await one.response(0.0)
        assert stream.deadline.is_closed
        assert (spool.size, len(stream.available)) == (size, size + 4)
        before = tmp_path.stat().st_mtime_ns
        await one.receive(spool)
        assert (spool.is_whole, stream.available, budget.held) == (True, b"next", held)
        assert (tmp_path.stat().st_mtime_ns > before) == files

    asyncio.run(use())


def versions(correlation_id: int, count: int) -> bytes:
    keys = [Message(api_key=1, min_version=0, max_version=n) for n in range(count)]
    body = encode("ApiVersionsResponse", 0, Message(error_code=0, api_keys=keys))
    return framed(correlation_id, body)


@pytest.mark.parametrize("count", [3, 2 * INLINE_MAX // 6])
def test_a_large_response_is_read_in_a_thread(count: int) -> None:
    ran: list[object] = []

    class Pool:
        async def run(self, job: Callable[[], object]) -> object:
            ran.append(job)
            return job()

    async def use() -> None:
        stream = Stream(versions(1, count) + versions(2, 1))
        one = upstream(stream, Pool())
        times: list[tuple[str, float, str]] = []
        one.on_response = lambda *said: times.append(said)
        one.api = "Fetch"
        ask = Ask(ApiKey.ApiVersions, 0, Message())
        assert len((await one.ask(ask)).api_keys) == count
        assert len(ran) == (count > 3)
        assert len((await one.ask(ask)).api_keys) == 1
        assert stream.drained == 2
        ((name, seconds, api), _) = times
        assert (name, api) == (str(BROKER), "Fetch")
        assert 0 <= seconds < 60
        no_response = Ask(ApiKey.Produce, 9, Message(acks=0, timeout_ms=5, topic_data=[]))
        await one.ask(no_response)
        assert stream.sent.count(b"\0\0\0\3") == 1  # its number is the third

    asyncio.run(use())
