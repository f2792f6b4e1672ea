"""The channel of a send: one way to write to everything that takes bytes.

A *channel* is a socket (blocking or not, TLS or not), a file (raw or buffered), or any object with
`send` or `write` that takes a buffer and returns the number of bytes that it took.

Not here: the written bytes, and when they are written (the sends)."""

import sys
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import Any, TypeAlias

Write: TypeAlias = Callable[[memoryview], int]


def writer(channel: Any, *, more: bool = False) -> Write:
    """A function that writes the bytes that the channel takes now, and returns their number, or 0.

    more: other bytes follow at once. A plain socket then sends both together, so that its reader is
    not woken for a few bytes and does not contend with the writer for the socket.

    Make it once for a send. Errors of the channel (closed, reset, timed out) are passed on to the
    caller. TypeError: nothing to write with, or an asyncio writer, which takes everything and does
    not report how much it has sent."""
    if hasattr(channel, "write_eof"):
        raise TypeError(
            "an asyncio writer does not say how much it took: write to a socket, or convert()"
        )
    take = getattr(channel, "send", None) or getattr(channel, "write", None)
    if take is None:
        raise TypeError(f"{type(channel).__name__} has neither send nor write")
    if more and is_plain_socket(channel):
        take = partial(_send_with_what_follows, channel)
    not_now = _not_now(_loaded("ssl"))

    def write(data: memoryview) -> int:
        try:
            taken = take(data)
        except not_now as error:
            # A buffered file that cannot pass its buffer on may have taken a part of the data.
            return getattr(error, "characters_written", 0)
        if taken is None:  # a raw file that would block
            return 0
        if not 0 <= taken <= len(data):
            raise OSError(f"the channel says that it took {taken} of {len(data)} bytes")
        return int(taken)

    return write


def _send_with_what_follows(channel: Any, data: memoryview) -> int:
    sent: int = channel.send(data, getattr(_loaded("socket"), "MSG_MORE", 0))  # if it exists
    return sent


def is_plain_socket(channel: Any) -> bool:
    """Whether it is a socket that sends bytes unchanged.

    A subclass may change them (TLS encrypts them), so only the class itself counts."""
    socket = sys.modules.get("socket")  # see `_loaded`
    return socket is not None and type(channel) is socket.socket


def _loaded(module: str) -> ModuleType | None:
    # A caller with such a channel has loaded its module. Other callers need not load it.
    return sys.modules.get(module)


@cache  # one for all sends, of which thousands may wait at once
def _not_now(ssl: ModuleType | None) -> tuple[type[OSError], ...]:
    if ssl is None:
        return (BlockingIOError,)
    return (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
