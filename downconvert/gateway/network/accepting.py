"""Accepts connections on one listening socket, until it is closed.

A server of asyncio reports a client after the TLS handshake. Here a client is counted, and may be
refused, before the handshake.

Not here: serving a client (loop.py)."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

from records.logged import log_of

LOG: Final = log_of(__name__)
# Not errors: the client has gone meanwhile.
GONE: Final = (BlockingIOError, InterruptedError, ConnectionError)
EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Accepted clients per turn of the loop. Meanwhile the other clients wait.
A_TURN: Final = 4
PAUSE: Final = 1.0  # seconds without accepting if the system lacks descriptors or memory


class Accepting:
    """Accepts clients. `on_accepted` gets each connection, a non-blocking socket, and the client's
    address."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        on_accepted: Callable[[socket.socket, str], None],
    ) -> None:
        self._loop = loop
        self._listening = listening
        self._on_accepted = on_accepted
        self._waiting: asyncio.TimerHandle | None = None
        self._resume()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listening.getsockname()[:2]
        return host, port

    def close(self) -> None:
        self._loop.remove_reader(self._listening)
        if self._waiting is not None:
            self._waiting.cancel()
        self._listening.close()

    def _resume(self) -> None:
        self._waiting = None
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(A_TURN):
            try:
                channel, peer = self._listening.accept()
            except GONE:
                return
            except OSError as error:
                LOG.error("no client is accepted for %.0f s: %s", PAUSE, error.strerror or error)
                if error.errno not in EXHAUSTED:
                    LOG.error("accepting failed", exc_info=error)
                self._loop.remove_reader(self._listening)
                self._waiting = self._loop.call_later(PAUSE, self._resume)
                return
            channel.setblocking(False)
            self._on_accepted(channel, peer[0])
