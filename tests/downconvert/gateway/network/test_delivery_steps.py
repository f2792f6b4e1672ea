"""A thread receives, advances and sends. The event loop waits."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from downconvert.gateway.network.conversion_pool import AGAIN
from downconvert.gateway.network.delivery import Delivery
from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.network.sockets.streams import PIECE_SIZE
from downconvert.gateway.session.exchanges import TURN, HangUp, Reply, Response, Steps
from records import RecordsError

RESULT = "the result of the last step"
SIZE = 3_000_000  # more than a socket's buffers hold
STEP = 8192  # bytes that a send writes at a time


class Pool:
    """Runs jobs at once. `turns`: in a row."""

    def __init__(self, turns: int = 1000) -> None:
        self.turns = turns
        self.runs = 0

    async def run(self, job: Callable[[], object]) -> object:
        self.runs += 1
        while (found := job()) is AGAIN:
            await asyncio.sleep(0)
        return found

    def may_continue(self, turns: int) -> bool:
        return turns < self.turns


class Client:
    """A client with a socket of its own, unless it speaks TLS."""

    peer = "the client"
    is_writable = False

    def __init__(self, near: socket.socket | None) -> None:
        self.near = near
        self.copies: list[socket.socket] = []
        self.pieces: list[int] = []
        self.drained = self.waited = self.aborted = 0
        self.on_wait: Callable[[], object] = lambda: None

    async def direct(self) -> socket.socket | None:
        if self.near is None:
            return None
        self.copies.append(self.near.dup())
        self.copies[-1].setblocking(False)
        return self.copies[-1]

    def send(self, piece: memoryview) -> None:
        self.pieces.append(len(piece))

    async def drain(self) -> None:
        self.drained += 1
        assert self.drained == len(self.pieces)

    async def ready(self, _: socket.socket, *, to_write: bool) -> None:
        assert to_write
        self.waited += 1
        self.on_wait()

    def abort(self) -> None:
        self.aborted += 1


class Send:
    """A response of zeros. `converts`: whether making it takes time."""

    def __init__(self, size: int, *, converts: bool = True, error: Exception | None = None) -> None:
        self.size, self.sent = size, 0
        self.records = [object()] if converts else []
        self.error = error

    def take_whole(self) -> None:
        """It has records."""

    @property
    def completed(self) -> bool:
        return self.sent == self.size

    def write_to(self, channel: Any, budget: int = STEP) -> int:
        begun = self.sent
        while self.sent - begun < budget and not self.completed:
            if self.error is not None and self.sent >= self.size // 2:
                raise self.error
            try:
                taken = channel.send(memoryview(bytes(min(STEP, self.size - self.sent))))
            except BlockingIOError:
                break
            self.sent += taken
            if not taken:
                break
        return self.sent - begun


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    far.setblocking(False)
    with near, far:
        yield near, far


def delivery(client: Client, pool: Pool | None = None) -> Delivery:
    clients: Any = client
    pools: Any = pool or Pool()
    return Delivery(clients, pools)


def read_all(far: socket.socket) -> int:
    size = 0
    try:
        while piece := far.recv(1 << 20):
            size += len(piece)
    except BlockingIOError:
        pass
    return size


def replying(reply: Reply, got: list[Any], turns: int = 2) -> Steps:
    for _ in range(turns):
        got.append((yield TURN))
    return reply


def begun(steps: Steps) -> Steps:
    next(steps)
    return steps


@pytest.mark.parametrize("turns", [1, 2, 1000])
def test_a_result_is_given_to_its_step_and_no_other(turns: int) -> None:
    got: list[Any] = []
    steps = begun(replying(HangUp("over"), got, turns=4))

    async def use() -> None:
        one = delivery(Client(None), Pool(turns))
        assert await one.advance(steps, lambda: RESULT) == HangUp("over")
        assert got == [RESULT, None, None, None]

    asyncio.run(use())


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("kind", ["final", "ends", "throttled"])
def test_a_thread_sends_a_response_only_if_it_may_not_change_any_more(
    sockets: tuple[socket.socket, socket.socket], is_open: bool, kind: str
) -> None:
    near, far = sockets
    send: Any = Send(100)
    options = {"ends": {"ends": HangUp("x")}, "throttled": {"throttled": lambda _: send}}
    reply = Response(send, **options.get(kind, {}))  # type: ignore[arg-type]

    async def use() -> None:
        client = Client(near)
        one = delivery(client)
        if is_open:
            await one.open()
            await one.open()
        assert len(client.copies) == is_open
        assert await one.advance(begun(replying(reply, [])), lambda: None) is reply
        assert read_all(far) == (100 if is_open and kind == "final" else 0)
        await one.send(send, is_small=False)
        assert send.completed
        one.close()
        assert all(copy.fileno() == -1 for copy in client.copies)

    asyncio.run(use())


@pytest.mark.parametrize("size", [10, PIECE_SIZE, PIECE_SIZE + 1, 3 * PIECE_SIZE + 5])
@pytest.mark.parametrize("converts", [True, False])
@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("is_plain", [True, False])
def test_only_small_responses_are_converted_outside_a_thread(
    monkeypatch: pytest.MonkeyPatch,
    sockets: tuple[socket.socket, socket.socket],
    size: int,
    converts: bool,
    is_small: bool,
    is_plain: bool,
) -> None:
    monkeypatch.setattr("downconvert.gateway.network.delivery.INLINE_SECONDS", 10.0)
    near, far = sockets

    async def use() -> None:
        client, pool = Client(near if is_plain else None), Pool()
        client.on_wait = lambda: read.append(read_all(far))
        send: Any = Send(size, converts=converts)
        one = delivery(client, pool)
        await one.send(send, is_small=is_small)
        assert send.completed
        in_thread = converts and not (is_small and size <= PIECE_SIZE)
        assert (pool.runs > 0) is in_thread
        read.append(read_all(far))
        goes_by_socket = in_thread and is_plain
        assert sum(read) == (size if goes_by_socket else 0)
        assert sum(client.pieces) == (0 if goes_by_socket else size)
        assert all(piece == PIECE_SIZE for piece in client.pieces[:-1])
        assert client.drained == len(client.pieces)
        one.close()

    read: list[int] = []
    asyncio.run(use())


def test_a_response_that_takes_longer_than_a_moment_is_left_to_a_thread(
    monkeypatch: pytest.MonkeyPatch, sockets: tuple[socket.socket, socket.socket]
) -> None:
    monkeypatch.setattr("downconvert.gateway.network.delivery.INLINE_SECONDS", 0.0)

    async def use() -> None:
        client, pool = Client(sockets[0]), Pool()
        send: Any = Send(STEP * 3)
        one = delivery(client, pool)
        await one.send(send, is_small=True)
        assert pool.runs == 1
        assert read_all(sockets[1]) == STEP * 3 - sum(client.pieces)
        one.close()

    asyncio.run(use())


@pytest.mark.parametrize("turns", [1, 1000])
def test_a_slow_client_is_waited_for_outside_the_thread(
    sockets: tuple[socket.socket, socket.socket], turns: int
) -> None:
    near, far = sockets

    async def use() -> None:
        client, read = Client(near), list[int]()
        client.on_wait = lambda: read.append(read_all(far))
        send: Any = Send(SIZE)
        one = delivery(client, Pool(turns))
        await one.send(send, is_small=False)
        read.append(read_all(far))
        assert sum(read) == SIZE
        assert client.waited > 3
        assert not client.aborted
        one.close()

    asyncio.run(use())


def test_a_thread_sends_all_of_a_response_in_the_same_way(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    near, far = sockets

    async def use() -> None:
        client, read = Client(near), list[int]()
        client.on_wait = lambda: read.append(read_all(far))
        send: Any = Send(SIZE, converts=False)
        one = delivery(client)
        await one.open()
        await one.advance(begun(replying(Response(send), [])), lambda: None)
        assert 0 < send.sent < SIZE
        await one.send(send, is_small=True)
        read.append(read_all(far))
        assert (sum(read), client.pieces) == (SIZE, [])
        one.close()

    asyncio.run(use())


@pytest.mark.parametrize(
    ("error", "raised", "aborts"),
    [
        (BrokenPipeError(), ConnectionEndedError, 1),
        (TimeoutError(), ConnectionEndedError, 1),
        (RecordsError("damaged"), RecordsError, 0),
        (OSError("no disk"), OSError, 0),
    ],
)
@pytest.mark.parametrize("is_begun", [True, False])
def test_an_error_in_the_thread_is_raised_where_it_is_sent(
    sockets: tuple[socket.socket, socket.socket],
    error: Exception,
    raised: type[Exception],
    aborts: int,
    is_begun: bool,
) -> None:
    async def use() -> None:
        client = Client(sockets[0])
        send: Any = Send(STEP * 4, error=error)
        one = delivery(client)
        if is_begun:
            await one.open()
            await one.advance(begun(replying(Response(send), [])), lambda: None)
        with pytest.raises(raised):
            await one.send(send, is_small=False)
        assert client.aborted == aborts
        one.close()

    asyncio.run(use())
