"""A server that takes connections in a thread, until a test is over.

Not here: what it does with them (hanging.py, scripted.py)."""

import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from threading import Thread
from typing import Self

from tests.ports import LOOPBACK, free_ports


class Listening(ABC):
    """At a free `port`. `accepted`: how many connections it has taken."""

    def __init__(self) -> None:
        self.accepted = 0
        (self.port,) = free_ports(1)
        self._listener = socket.create_server((LOOPBACK, self.port))
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.accepted += 1
                self.take(near)

    @abstractmethod
    def take(self, near: socket.socket) -> None:
        """Begins to serve the last accepted connection, and closes it later."""
