"""A stream of the gateway over a pair of sockets, for tests without a gateway."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from downconvert.gateway.network.streams import Stream

Use: TypeAlias = Callable[[Stream, socket.socket], Awaitable[None]]


def with_stream(use: Use, make: Callable[[], Stream] = Stream) -> None:
    """Runs `use` with a stream and the other side of its connection."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            loop, stream = asyncio.get_running_loop(), make()
            await loop.connect_accepted_socket(lambda: stream, ours)
            try:
                await use(stream, theirs)
            finally:
                stream.close()

    asyncio.run(run())
