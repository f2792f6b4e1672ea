"""A connection between the gateway and its cluster that breaks at a byte, and a client that
continues.

Not here: where it breaks, and what must hold (test_faults.py)."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from struct import Struct
from threading import Lock, Thread
from typing import Final

from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from tests.ports import LOOPBACK, free_ports

from .serving import Wire

LINGER: Final = Struct("ii")
PATIENCE: Final = 30.0  # seconds until a client that tries again gives up
PIECE: Final = 65_536


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the next connection breaks: behind so many bytes of requests, or of responses.

    `is_abrupt`: by a reset, and not by an end."""

    of_requests: bool
    size: int
    is_abrupt: bool = False


class Wiring:
    """Passes connections on to a port. `cut` holds for the next one, and is None afterwards."""

    def __init__(self, port: int) -> None:
        self.cut: Cut | None = None
        self.passed = [0, 0]  # bytes of responses and of requests, on the last connection
        self._target = port
        (self.port,) = free_ports(1)
        self._listener = socket.create_server((LOOPBACK, self.port))
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for one in self._open:
                _end(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                cut, self.cut = self.cut, None
                self.passed = passed = [0, 0]
                try:
                    far = socket.create_connection((LOOPBACK, self._target))
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._open |= {near, far}
                for source, target, of_requests in ((near, far, True), (far, near, False)):
                    mine = cut if cut is not None and cut.of_requests is of_requests else None
                    arguments = (source, target, mine, passed, of_requests)
                    Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(
        self,
        source: socket.socket,
        target: socket.socket,
        cut: Cut | None,
        passed: list[int],
        of_requests: bool,
    ) -> None:
        left = cut.size if cut is not None else None
        with suppress(OSError):
            while left != 0:
                piece = source.recv(PIECE if left is None else min(left, PIECE))
                if not piece:
                    break
                passed[of_requests] += len(piece)  # before a client can have read them
                target.sendall(piece)
                left = None if left is None else left - len(piece)
        if cut is not None and cut.is_abrupt:
            for one in (source, target):
                with suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER.pack(1, 0))
        _end(source)
        _end(target)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def wired(port: int) -> Iterator[Wiring]:
    """In front of a port."""
    wiring = Wiring(port)
    try:
        yield wiring
    finally:
        wiring.close()


class Persistent:
    """A client without a library, which repeats a request until it is answered."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._wire: Wire | None = None
        self.failures = 0

    def ask(self, api: ApiKey, version: int, body: Message) -> Message:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if self._wire is None:
                    self._wire = Wire(self._address)
                return self._wire.ask(api, version, body)
            except (OSError, EOFError):
                self.failures += 1
                self.hang_up()
                assert time.monotonic() < deadline, "nobody answers any more"
                time.sleep(0.01)

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.socket.close()
            self._wire = None
