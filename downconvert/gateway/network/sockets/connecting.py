"""Connects to a host.

A host may have several addresses. If an address does not answer soon, the next one is tried in
parallel [RFC 8305]. The first connection is used, and all other attempts end.

Not here: which host to connect to, and what a failure means (upstream.py)."""

import asyncio
import socket
import ssl
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from downconvert.serving.system_errors import words_of

from .event_loop import EventLoop
from .socket_transport import SocketTransport
from .streams import PIECE_SIZE, Stream
from .tcp import set_options

HAPPY_EYEBALLS: Final = 0.25  # seconds until the next address is tried in parallel [RFC 8305]

SocketAddress: TypeAlias = tuple[int, Any]  # the address family, and the address for `socket`
Attempt: TypeAlias = "asyncio.Task[socket.socket]"


async def connect(
    host: str, port: int, context: ssl.SSLContext | None, patience: float | None = None
) -> Stream:
    """A connection to a host. OSError, also for failures of TLS. The caller limits the time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, EventLoop)
    channel = await _connected_channel(loop, host, port)
    stream = Stream(f"broker {host}:{port}", patience, PIECE_SIZE)
    if context is None:
        SocketTransport(loop, channel, stream)
    else:
        await loop.create_connection(
            lambda: stream, sock=channel, ssl=context, server_hostname=host
        )
    return stream


async def _connected_channel(loop: EventLoop, host: str, port: int) -> socket.socket:
    """A connected socket. OSError: no address of the host takes a connection."""
    addresses = await _addresses(loop, host, port)
    if len(addresses) == 1:
        return await _connected_to(loop, addresses[0])
    attempts: set[Attempt] = set()
    failures: list[OSError] = []
    try:
        while addresses or attempts:
            if addresses:
                attempts.add(loop.create_task(_connected_to(loop, addresses.pop(0))))
            delay = HAPPY_EYEBALLS if addresses else None
            await asyncio.wait(attempts, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
            for attempt in [one for one in attempts if one.done()]:
                attempts.discard(attempt)
                error = attempt.exception()
                if error is None:
                    return attempt.result()
                if not isinstance(error, OSError):
                    raise error
                failures.append(error)
    finally:
        for attempt in attempts:
            attempt.add_done_callback(_close_unused)
            attempt.cancel()
    reasons = dict.fromkeys(map(words_of, failures))
    raise failures[0] if len(reasons) == 1 else OSError(", ".join(reasons))


async def _connected_to(loop: EventLoop, address: SocketAddress) -> socket.socket:
    family, where = address
    channel = socket.socket(family, socket.SOCK_STREAM)
    try:
        channel.setblocking(False)
        await loop.sock_connect(channel, where)
        set_options(channel)
    except BaseException:
        channel.close()
        raise
    return channel


def _close_unused(attempt: Attempt) -> None:
    """Closes the connection, if there is one, of an attempt that lost the race."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _addresses(loop: EventLoop, host: str, port: int) -> list[SocketAddress]:
    """The addresses of a host, alternating between address families. OSError: the host is
    unknown."""
    try:
        family = socket.AF_INET if ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        pass
    else:
        return [(family, (host, port))]
    families: dict[int, list[SocketAddress]] = {}
    for family, _, _, _, where in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        families.setdefault(family, []).append((family, where))
    return [one for ones in zip_longest(*families.values()) for one in ones if one is not None]
