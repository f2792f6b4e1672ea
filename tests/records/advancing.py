"""Calls of `advance` into a channel that somebody reads."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from records.kernel import Outcome
from records.units import MiB

from .long_log import CHUNK, EVERYTHING

KINDS: Final = ("pipe", "socket")


class Channel:
    """A pipe or a pair of sockets, neither of which blocks."""

    def __init__(self, kind: str) -> None:
        self.is_socket = kind == "socket"
        if self.is_socket:
            pair = socket.socketpair()
            self.reader, self.writer = (end.detach() for end in pair)
        else:
            self.reader, self.writer = os.pipe()
        for end in self.reader, self.writer:
            os.set_blocking(end, False)
        self.taken = bytearray()

    def drain(self, size: int = MiB) -> None:
        with suppress(BlockingIOError):
            self.taken += os.read(self.reader, size)

    def close(self) -> None:
        for end in self.reader, self.writer:
            os.close(end)


def channel(request: pytest.FixtureRequest) -> Iterator[Channel]:
    """A fixture, with KINDS as its parameters."""
    made = Channel(request.param)
    yield made
    made.close()


def send(
    transcoder: Any,
    source: Any,
    size: int,
    channel: Channel,
    *,
    budget: int = EVERYTHING,
    chunk_size: int = CHUNK,
    drains: int = MiB,
) -> tuple[int, Outcome]:
    """Calls `advance` until it ends for another reason than room or budget."""
    position = 0
    while True:
        consumed, written, outcome, rest, error = transcoder.advance(
            *(source, position, size, chunk_size, channel.writer, channel.is_socket),
            *(EVERYTHING, budget),
        )
        assert error == 0
        position += consumed
        assert (rest is None) == (outcome != Outcome.CHANNEL)
        while rest:
            channel.drain(drains)
            try:
                rest = rest[os.write(channel.writer, rest) :]
            except BlockingIOError:
                continue
        if outcome not in (Outcome.CHANNEL, Outcome.LIMIT):
            while True:
                before = len(channel.taken)
                channel.drain()
                if len(channel.taken) == before:
                    return position, Outcome(outcome)
        if outcome == Outcome.LIMIT:
            assert max(consumed, written) >= budget
            channel.drain()
