"""Callbacks of watched files, and the other work of the event loop."""

import asyncio
import socket
from collections.abc import Callable
from threading import Timer

import pytest

from downconvert.gateway.network.sockets.event_loop import EventLoop
from downconvert.gateway.network.sockets.socket_transport import READABLE


def test_the_loop_runs_a_coroutine_to_its_end() -> None:
    loop = EventLoop()
    try:
        assert loop.run_until_complete(asyncio.sleep(0, 7)) == 7
    finally:
        loop.close()


Begin = Callable[[EventLoop, Callable[[], None]], object]


def by_a_turn(loop: EventLoop, done: Callable[[], None]) -> None:
    loop.call_soon(done)


def by_a_timer(loop: EventLoop, done: Callable[[], None]) -> None:
    loop.call_later(0.001, done)


def by_a_thread(loop: EventLoop, done: Callable[[], None]) -> None:
    Timer(0.001, loop.call_soon_threadsafe, (done,)).start()


def by_a_file(loop: EventLoop, done: Callable[[], None]) -> None:
    one, other = socket.socketpair()

    def ready() -> None:
        loop.remove_writer(one)
        one.close()
        other.close()
        done()

    loop.add_writer(one, ready)


@pytest.mark.parametrize("is_always_ready", [False, True])
@pytest.mark.parametrize("begin", [by_a_turn, by_a_timer, by_a_thread, by_a_file])
def test_work_that_the_callback_of_a_watched_file_leaves_is_done(
    begin: Begin, is_always_ready: bool
) -> None:
    """Whether no other event comes, or events come all the time."""

    async def run(loop: EventLoop) -> None:
        ours, theirs = socket.socketpair()
        done, calls = loop.create_future(), 0

        def ready(_: int) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                begin(loop, lambda: done.set_result(None))
            if not is_always_ready:
                ours.recv(1)

        with ours, theirs:
            loop.watch(ours.fileno(), ready, READABLE)
            await asyncio.sleep(0)  # no timer waits now
            theirs.send(b"x")
            await done
            loop.unwatch(ours.fileno())

    loop = EventLoop()
    try:
        loop.run_until_complete(run(loop))
    finally:
        loop.close()


def test_a_file_that_is_not_watched_any_more_is_not_called() -> None:
    async def run(loop: EventLoop) -> list[int]:
        pairs = [socket.socketpair() for _ in range(2)]
        called: list[int] = []

        def ready(number: int) -> None:
            called.append(number)
            for ours, _ in pairs:
                loop.unwatch(ours.fileno())

        for number, (ours, theirs) in enumerate(pairs):
            loop.watch(ours.fileno(), lambda _, number=number: ready(number), READABLE)
            theirs.send(b"x")
        await asyncio.sleep(0.01)
        for pair in pairs:
            for one in pair:
                one.close()
        return called

    loop = EventLoop()
    try:
        assert len(loop.run_until_complete(run(loop))) == 1
    finally:
        loop.close()
