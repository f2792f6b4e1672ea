"""The two sides of requests that pass, without sockets, in a test's own time.

Not here: what must hold (test_passing_steps.py)."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from downconvert.broker import Broker, BrokerConfig
from downconvert.gateway.config import Limits
from downconvert.gateway.network.passing import Passing
from downconvert.gateway.network.sockets.ended import StalledError
from downconvert.gateway.network.sockets.streams import CLIENT, KEPT
from downconvert.gateway.network.upstream import framed
from downconvert.gateway.session.exchanges import Ask
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.downconvert.broker.asking import frame
from tests.downconvert.gateway.cluster import Through, modern
from tests.downconvert.gateway.serving import LENGTH
from tests.downconvert.gateway.talk import fetch_body

GROUP = Message(group_id="g", generation_id=1, member_id="m", topics=[])
IDLE, REQUEST_TIMEOUT, WAIT = 600.0, 30.0, 7.0
DAY = 5_000.0  # the time of day
BROKER = Address("broker.test", 9092)


class Timer:
    def __init__(self) -> None:
        self.limits: list[float] = []
        self.limit = 0.0

    def move(self, limit: float) -> None:
        self.limit = limit
        self.limits.append(limit)


class Side:
    """A stream whose bytes and moments the test decides."""

    is_plain = False

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.available: bytes = b""
        self.on_arrival: Callable[[memoryview], int] | None = None
        self.sent = bytearray()
        self.writes: list[bytes] = []
        self.is_writable = True
        self.has_ended = False
        self.deadline = Timer()
        self.copied: list[int] = []
        self.wakes = 0
        self._is_kept = False
        self._waiter: asyncio.Future[None] | None = None
        self._time_out: Exception | None = None

    def send(self, data: bytes | bytearray) -> None:
        self.sent += data
        self.writes.append(bytes(data))

    def wake(self) -> None:
        self.wakes += 1
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def more(self, limit: float) -> None:
        self.deadline.limits.append(limit)
        await self.parked()
        self.unpark()

    async def parked(self) -> None:
        """Waits between two calls of `run`."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def unpark(self) -> None:
        error, self._time_out = self._time_out, None
        if error is not None:
            raise error

    def time_out(self, error: Exception) -> None:
        self._time_out = error
        self.wake()

    def offer_again(self) -> None:
        if self.available:
            assert self.on_arrival is not None
            taken = self.on_arrival(memoryview(self.available))
            self.available = self.available[max(taken, 0) :]
            self._is_kept = taken == KEPT

    def arrive(self, data: bytes) -> None:
        self.available += data
        self.offer_again()
        if self.available and not self._is_kept:
            self.wake()

    async def drain(self) -> None:
        while not self.is_writable:
            await asyncio.sleep(0)

    async def receive_into(self, sink: Callable[[bytes], object], size: int, *_: object) -> int:
        self.copied.append(size)
        sink(bytes(size))
        return size

    def silence(self) -> StalledError:
        return StalledError(self.peer, REQUEST_TIMEOUT)


class Upstream:
    """A connection to a broker, over the broker's side."""

    def __init__(self, stream: Side, last_id: int = 40) -> None:
        self.stream = stream
        self.address = BROKER
        self.name = str(BROKER)
        self.responses: list[tuple[str, float, str]] = []
        self.last_id = last_id

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def write(self, ask: Ask) -> int:
        number = self.next_id()
        self.stream.send(framed(ask, number))
        return number

    def on_response(self, name: str, seconds: float, api: str) -> None:
        self.responses.append((name, seconds, api))


class Counted:
    """The counted requests: API, seconds, bytes of the request and of its response."""

    def __init__(self) -> None:
        self.served: list[tuple[str, float, int, int]] = []
        self.errors: list[tuple[str, dict[int, int]]] = []

    def errors_answered(self, api: str, codes: dict[int, int]) -> None:
        self.errors.append((api, codes))

    def request_served(self, api: str, seconds: float, _: str, received: int, sent: int) -> None:
        self.served.append((api, seconds, received, sent))


class Between:
    """A client and a broker with requests that pass between them."""

    def __init__(self, through: Through) -> None:
        self.session = through.session
        self.client, self.broker = Side(CLIENT), Side("the broker")
        self.counted, self.upstream = Counted(), Upstream(self.broker)
        self.now, self.day = 100.0, DAY
        client: Any = self.client
        counted: Any = self.counted
        self.passing = Passing(client, through.session, counted, lambda: self.day, lambda: self.now)
        self.passing.reach(self.upstream)  # type: ignore[arg-type]

    async def begin(self) -> "asyncio.Task[Any]":
        task = asyncio.create_task(self._run())
        await asyncio.sleep(0)
        return task

    async def _run(self) -> Any:
        """As the connection runs it: again after each wait."""
        while True:
            found = await self.passing.run()
            if not self.passing.is_open:
                return found
            await self.client.parked()

    def rows(self, name: str = "requests") -> dict[tuple[str, int], int]:
        rows = self.session.shared.census.rows()
        return {(row["api"], row["version"]): row[name] for row in rows}


def request(number: int, *, waits: bool = False, client_id: str = "test") -> bytes:
    if waits:
        body = fetch_body(0, wait=int(WAIT * 1000))
        body.session_epoch = -1
        data = frame(ApiKey.Fetch, 12, body, client_id)
    else:
        data = frame(ApiKey.Heartbeat, 3, GROUP, client_id)
    data = data[:4] + number.to_bytes(4) + data[8:]
    return LENGTH.pack(len(data)) + data


def response(number: int, size: int = 20) -> bytes:
    return LENGTH.pack(size) + number.to_bytes(4) + bytes(size - 4)


@contextmanager
def known(tmp_path: Path) -> Iterator[Through]:
    """A client whose requests of both kinds are known."""
    with LogDir.open(tmp_path, writable=True) as log_dir:
        found = Through(modern(Broker(log_dir, BrokerConfig())))
        limits = Limits(idle_timeout=IDLE, request_timeout=REQUEST_TIMEOUT)
        object.__setattr__(found.config, "limits", limits)
        for waits in (False, True):
            assert found.passes(request(1, waits=waits)[4:])
        yield found


Use = Callable[[Between], Coroutine[Any, Any, None]]


def run(through: Through, use: Use) -> None:
    asyncio.run(use(Between(through)))
