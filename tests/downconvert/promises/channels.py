"""How clients take a response: at once or a few bytes at a time, from a file, from a pipe, or from
a socket with little room, also with TLS. Some leave halfway, and some disks are full.

Not here: what they ask for (clients.py)."""

import fcntl
import os
import socket
import ssl
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final, Protocol

from tests.certificates import self_signed

READ_SIZE: Final = 1 << 20
PAGE_SIZE: Final = 4_096  # a file that cannot grow takes whole pages
ROOM_IN_SOCKET: Final = 4_096  # bytes, about: the system adds some
STINGY_SIZES: Final = (100, 1_000, 30_000)
TURNS_OF_STINGY: Final = 100  # about, for a whole response


class Channel(Protocol):
    """taken: what the client has. channel: what a send writes to. is_open: whether the client is
    still there."""

    taken: bytearray
    is_open: bool

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
        self.is_open = True

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


class Filed:
    """A file: a raw one, which the kernel writes to by itself, or a buffered one."""

    is_open = True

    def __init__(self, buffering: int) -> None:
        self.channel = TemporaryFile(buffering=buffering)
        self.taken = bytearray()

    def drain(self) -> None:
        self.channel.flush()
        self.taken += os.pread(self.channel.fileno(), READ_SIZE, len(self.taken))

    def close(self) -> None:
        self.channel.close()


class Full:
    """A file whose disk is full after so many bytes. The system then refuses to let it grow."""

    is_open = False  # writing may fail at any time

    def __init__(self, room: int) -> None:
        descriptor = os.memfd_create("full", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, room)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
        self.channel = os.fdopen(descriptor, "wb", buffering=0)
        self.taken = bytearray()

    def drain(self) -> None:
        size = self.channel.tell() - len(self.taken)
        self.taken += os.pread(self.channel.fileno(), size, len(self.taken))

    def close(self) -> None:
        self.channel.close()


class Piped:
    """A pipe, which the kernel writes to by itself."""

    is_open = True

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


class Bytewise(Taken):
    """A channel that takes one byte of most writes, and all of a few."""

    def write(self, data: memoryview) -> int:
        size = len(data) if self._random.random() < 0.1 else 1
        self.taken += data[:size]
        return size


class Socketed:
    """A socket that does not block. Its reader takes any part of what has arrived, or nothing.
    `leaves_at`: the reader closes it once it has taken so many bytes."""

    def __init__(self, random: Random, leaves_at: int | None = None) -> None:
        self._random = random
        self._leaves_at = leaves_at
        self.channel, self._reader = self.pair()
        self.taken = bytearray()
        self.is_open = True

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """The send's end and the client's."""
        channel, reader = socket.socketpair()
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM_IN_SOCKET)
        for each in (channel, reader):
            each.setblocking(False)
        return channel, reader

    def drain(self) -> None:
        if not self.is_open:
            return
        try:
            self.taken += self._reader.recv(self._random.choice((1_000, 5_000, READ_SIZE)))
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        if self._leaves_at is not None and len(self.taken) >= self._leaves_at:
            self._reader.close()
            self.is_open = False

    def close(self) -> None:
        self.channel.close()
        self._reader.close()


class Encrypted(Socketed):
    """A socket with TLS."""

    def pair(self) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
        """The same, after the handshake."""
        channel, reader = super().pair()
        ours, theirs = _contexts()
        pair = (
            ours.wrap_socket(channel, server_side=True, do_handshake_on_connect=False),
            theirs.wrap_socket(reader, do_handshake_on_connect=False),
        )
        waiting = list(pair)
        while waiting:
            waiting = [each for each in waiting if not _shakes_hands(each)]
        return pair


def _shakes_hands(one: ssl.SSLSocket) -> bool:
    """Whether the handshake is done."""
    try:
        one.do_handshake()
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    return True


@cache
def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as directory:
        ours.load_cert_chain(*self_signed(Path(directory)))
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    theirs.check_hostname, theirs.verify_mode = False, ssl.CERT_NONE
    return ours, theirs


def any_channel(random: Random, size: int, *, leaves: bool = True) -> Channel:
    """A channel for a response of so many bytes. `leaves`: the client may leave halfway."""
    kind = random.randrange(10 if leaves else 8)
    if kind == 0:
        return Taken(random)
    if kind == 1:
        return Piped()
    if kind == 2:
        return Socketed(random)
    if kind == 3:
        return Encrypted(random)
    if kind == 4:
        return Bytewise(random)
    if kind == 5:
        return Filed(buffering=random.choice((0, 8192)))
    if kind == 8:
        return random.choice((Socketed, Encrypted))(random, leaves_at=size // 2)
    if kind == 9 and hasattr(os, "memfd_create"):
        return Full(size // 2 // PAGE_SIZE * PAGE_SIZE)
    return Stingy(random, max(random.choice(STINGY_SIZES), size // TURNS_OF_STINGY))
