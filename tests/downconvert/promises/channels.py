"""How clients take an answer: at once or a few bytes at a time, from a pipe, or from a socket with
little room.

Not here: what they ask for (clients.py)."""

import os
import socket
from random import Random
from typing import Any, Final, Protocol

READ_SIZE: Final = 1 << 20
ROOM_IN_SOCKET: Final = 4_096  # bytes, about: the system adds some
STINGY_SIZES: Final = (100, 1_000, 30_000)
TURNS_OF_STINGY: Final = 100  # about, for a whole answer


class Channel(Protocol):
    """taken: what the client has. channel: what a send writes to."""

    taken: bytearray

    @property
    def channel(self) -> Any: ...

    def drain(self) -> None:
        """Takes what has been written."""

    def close(self) -> None:
        """The client has gone."""


class Taken:
    """A channel that takes some of what it is given, or nothing."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.taken = bytearray()

    @property
    def channel(self) -> Any:
        return self

    def write(self, data: memoryview) -> int | None:
        if self._random.random() < 0.1:
            return None
        size = len(data) if self._random.random() < 0.5 else self._random.randint(0, len(data))
        self.taken += data[:size]
        return size

    def drain(self) -> None:
        """Takes what has been written."""

    def close(self) -> None:
        """The client has gone."""


class Piped:
    """A pipe, which the kernel writes to by itself."""

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(writer, False)
        self.channel = os.fdopen(writer, "wb", buffering=0)
        self.taken = bytearray()

    def drain(self) -> None:
        while True:
            try:
                self.taken += os.read(self._reader, READ_SIZE)
            except BlockingIOError:
                return

    def close(self) -> None:
        self.channel.close()
        os.close(self._reader)


class Stingy(Taken):
    """A channel that takes 1 to n bytes, and every other time is not ready."""

    def __init__(self, random: Random, size_max: int) -> None:
        super().__init__(random)
        self._size_max = size_max
        self._is_ready = False

    def write(self, data: memoryview) -> int:
        self._is_ready = not self._is_ready
        if not self._is_ready:
            raise BlockingIOError
        size = min(len(data), self._random.randint(1, self._size_max))
        self.taken += data[:size]
        return size


class Socketed:
    """A socket that does not block. Its reader takes any part of what has arrived, or nothing."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.channel, self._reader = socket.socketpair()
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM_IN_SOCKET)
        for each in (self.channel, self._reader):
            each.setblocking(False)
        self.taken = bytearray()

    def drain(self) -> None:
        try:
            self.taken += self._reader.recv(self._random.choice((1_000, 5_000, READ_SIZE)))
        except BlockingIOError:
            return

    def close(self) -> None:
        self.channel.close()
        self._reader.close()


def any_channel(random: Random, size: int) -> Channel:
    """A channel for an answer of so many bytes."""
    kind = random.randrange(4)
    if kind == 0:
        return Taken(random)
    if kind == 1:
        return Piped()
    if kind == 2:
        return Socketed(random)
    return Stingy(random, max(random.choice(STINGY_SIZES), size // TURNS_OF_STINGY))
