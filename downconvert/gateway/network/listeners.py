"""The sockets that clients connect to: one for the listener, and one for each broker.

A socket is opened once, and each process of a gateway gets a copy. Any free process accepts the
next client. A port in use is an error, even if another gateway uses it: the system would distribute
clients over two clusters. Gateways share ports only if all are configured to do so.

Not here: how copies are sent to another process (processes.py)."""

import os
import socket
from errno import EADDRINUSE
from threading import Lock
from typing import Final, Protocol

from downconvert.gateway.network.sockets.tcp import set_options
from downconvert.serving.system_errors import words_of

BACKLOG: Final = 4096  # clients that wait to be accepted; the system has a limit, too


class ListensFor(Protocol):
    """The source of listening sockets for a gateway's loop."""

    def copies(self, node_id: int, port: int) -> list[socket.socket]:
        """The sockets of a node, one for each address of the host, to be closed by the caller.

        OSError: the port cannot be bound."""

    def close(self, node_id: int) -> None:
        """Stops listening for a node that is gone. Its port is free once all copies are closed."""

    def close_all(self) -> None: ...


class Listeners:
    """All listening sockets of a gateway. Thread-safe."""

    def __init__(self, host: str, *, shares_ports: bool) -> None:
        self._host = host
        self._shares_ports = shares_ports
        self._lock = Lock()
        self._sockets: dict[int, list[socket.socket]] = {}

    def copies(self, node_id: int, port: int) -> list[socket.socket]:
        """The sockets of a node, one for each address of the host, to be closed by the caller.

        OSError: the port cannot be bound."""
        with self._lock:
            if node_id not in self._sockets:
                self._sockets[node_id] = self._opened(port)
            return [one.dup() for one in self._sockets[node_id]]

    def close(self, node_id: int) -> None:
        """Stops listening once all copies are closed."""
        with self._lock:
            for one in self._sockets.pop(node_id, ()):
                one.close()

    def close_all(self) -> None:
        for node_id in list(self._sockets):
            self.close(node_id)

    def _opened(self, port: int) -> list[socket.socket]:
        found = socket.getaddrinfo(
            self._host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        opened: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                one = socket.socket(family, kind, protocol)
                opened.append(one)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                if self._shares_ports:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                # For port 0, the system chooses a port for the first address, and the others reuse
                # it.
                set_options(one)
                one.bind((address[0], opened[0].getsockname()[1] or port, *address[2:]))
                one.listen(BACKLOG)
                one.setblocking(False)
        except OSError:
            for one in opened:
                one.close()
            raise
        return opened


def why(error: OSError) -> str:
    """Why a port cannot be bound, for error messages."""
    if error.errno == EADDRINUSE:
        return (
            f"{os.strerror(EADDRINUSE)} by another program, another gateway, or --http of this one"
        )
    return words_of(error)
