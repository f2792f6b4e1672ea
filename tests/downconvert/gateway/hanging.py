"""Brokers that hang: they accept connections, and say nothing, or nothing more.

Not here: what the gateway does about them (test_upstream.py)."""

import socket
import time
from contextlib import suppress
from threading import Lock, Thread

from tests.ports import LOOPBACK

from .listening import Listening

PIECE = 65_536


class Hanging(Listening):
    """In front of a broker's port, or of none. While it `hangs`, what arrives is read and lost.

    `answered`: bytes of each piece of a response that are passed on; None: all. `pause`: seconds
    before each piece of a response. `left`: bytes of responses until it hangs; None: it does
    not. `lost`: bytes of requests that it read while it hung."""

    def __init__(self, port: int | None = None) -> None:
        self.hangs = port is None
        self.answered: int | None = None
        self.pause = 0.0
        self.left: int | None = None
        self.lost = 0
        self._target = port
        self._lock = Lock()
        self._open: set[socket.socket] = set()  # towards the gateway
        super().__init__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.drop()

    @property
    def open(self) -> int:
        """Connections that the gateway has not ended."""
        with self._lock:
            return len(self._open)

    def drop(self) -> None:
        """Ends all connections."""
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def take(self, near: socket.socket) -> None:
        with self._lock:
            self._open.add(near)
        far = None
        if self._target is not None:
            far = socket.create_connection((LOOPBACK, self._target))
            Thread(target=self._pass, args=(far, near, True), daemon=True).start()
        Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near: socket.socket, far: socket.socket | None) -> None:
        self._pass(near, far)
        with self._lock:
            self._open.discard(near)
        for one in (near, far):
            if one is not None:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def _pass(
        self, source: socket.socket, target: socket.socket | None, is_response: bool = False
    ) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE):
                if is_response:
                    time.sleep(self.pause)
                    if self.left is not None:
                        piece, self.left = piece[: self.left], max(0, self.left - len(piece))
                if self.hangs:
                    self.lost += 0 if is_response else len(piece)
                elif target is not None:
                    target.sendall(piece[: self.answered if is_response else None])
