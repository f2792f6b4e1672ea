"""A stream over a pair of sockets in the event loop of a gateway, for tests without a gateway."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

from downconvert.gateway.network.sockets.event_loop import EventLoop
from downconvert.gateway.network.sockets.socket_transport import SocketTransport
from downconvert.gateway.network.sockets.streams import Stream

Use: TypeAlias = Callable[[Stream, socket.socket], Awaitable[None]]
Result = TypeVar("Result")


def in_loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine in an event loop of the gateway."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(main)


def attached(stream: Stream, channel: socket.socket) -> Stream:
    """Gives a stream its plain, connected socket, in the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, EventLoop)
    channel.setblocking(False)
    SocketTransport(loop, channel, stream)
    return stream


def with_stream(use: Use, make: Callable[[], Stream] = Stream) -> None:
    """Runs `use` with a stream and the other side of its connection."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            stream = attached(make(), ours)
            try:
                await use(stream, theirs)
            finally:
                stream.close()

    in_loop(run())
