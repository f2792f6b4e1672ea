"""Large responses of the cluster that a thread receives, in however many parts they come."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from downconvert.gateway.network.sockets.ended import ConnectionEndedError
from downconvert.gateway.session.exchanges import HangUp
from downconvert.gateway.session.spool import Spool
from records.budget import MemoryBudget

from .test_delivery_steps import Client, Pool, begun, delivery, replying


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


class Upstream:
    """A broker's stream whose socket is lent. `head`: its bytes that were read before."""

    peer = "the broker"

    def __init__(self, near: socket.socket, head: bytes) -> None:
        self.near, self.head = near, head
        self.lent = self.waited = 0
        self.on_wait: Callable[[], object] = lambda: None

    def lend(self, size: int) -> tuple[socket.socket, memoryview]:
        self.lent += 1
        self.near.setblocking(False)
        return self.near, memoryview(self.head[:size])

    def take_back(self, copy: socket.socket) -> None:
        assert copy is self.near
        self.lent -= 1

    async def ready(self, _: socket.socket, *, to_write: bool) -> None:
        assert not to_write
        self.waited += 1
        self.on_wait()


@pytest.mark.parametrize("turns", [0, 1, 1000])
@pytest.mark.parametrize("parts", [1, 4])
def test_a_response_in_any_number_of_parts_is_received_whole(
    sockets: tuple[socket.socket, socket.socket], turns: int, parts: int
) -> None:
    near, far = sockets
    data = bytes(range(256)) * 200
    head, rest = data[:5000], data[5000:]
    left = [rest[n * len(rest) // parts : (n + 1) * len(rest) // parts] for n in range(parts)]
    far.setblocking(True)

    async def use() -> None:
        upstream, spool = Upstream(near, head), Spool(len(data))
        upstream.on_wait = lambda: far.sendall(left.pop(0))
        got: list[Any] = []
        upstreams: Any = upstream
        one = delivery(Client(None), Pool(turns))
        steps = begun(replying(HangUp("over"), got))
        step = await one.receive(upstreams, spool, steps, lambda: spool.is_whole)
        assert step == HangUp("over")
        assert got == [True, None]
        assert (upstream.lent, upstream.waited, left) == (0, parts, [])

    asyncio.run(use())


def test_a_response_that_ends_early_ends_the_connection_and_the_socket_is_given_back(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    near, far = sockets
    far.setblocking(True)

    def say_a_little() -> None:
        far.sendall(bytes(100))
        far.shutdown(socket.SHUT_WR)

    async def use() -> None:
        upstream, spool = Upstream(near, b""), Spool(50_000)
        upstream.on_wait = say_a_little
        upstreams: Any = upstream
        one, steps = delivery(Client(None)), begun(replying(HangUp("over"), []))
        with pytest.raises(ConnectionEndedError, match="the broker"):
            await one.receive(upstreams, spool, steps, lambda: None)
        assert upstream.lent == 0
        assert await one.advance(steps, lambda: None) == HangUp("over")  # receives no more

    asyncio.run(use())


@pytest.mark.parametrize("has_thread", [True, False])
def test_bytes_read_before_count_while_the_response_waits_for_a_thread(
    sockets: tuple[socket.socket, socket.socket], has_thread: bool
) -> None:
    """Thousands of responses may wait, and each has a buffer of bytes."""
    near, far = sockets
    far.setblocking(True)
    budget = MemoryBudget(1 << 20)

    class Counting(Pool):
        held: int | None = None  # bytes, when a thread begins

        async def run(self, job: Callable[[], object]) -> object:
            if self.held is None:
                self.held = budget.held
            return await super().run(job)

    async def use() -> None:
        spool = Spool(200_000, budget=budget)
        upstream, pool = Upstream(near, bytes(5000)), Counting(1000 if has_thread else 0)
        upstream.on_wait = lambda: far.sendall(bytes(195_000))
        upstreams: Any = upstream
        steps = begun(replying(HangUp("over"), []))
        await delivery(Client(None), pool).receive(upstreams, spool, steps, lambda: None)
        assert pool.held == (0 if has_thread else 200_000)

    asyncio.run(use())
