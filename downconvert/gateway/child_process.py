"""One of several processes of a gateway: serves, and answers its parent.

Two channels lead to the parent. On the first, the parent asks for figures, sends new settings, and
tells the child to stop. Its requests and the responses are numbered. On the second, the child
requests listening sockets.

Not here: the parent (processes.py)."""

import errno
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from struct import Struct
from typing import Any, Final

from downconvert.access.rights import ConfigError
from downconvert.serving.garbage import rare_collections
from records.logged import log_of

from .config import GatewayConfig
from .server import Gateway
from .session.shared import Ledgers

LOG: Final = log_of(__name__)
REQUEST: Final = Struct(">?ii")  # whether a node is gone, its id, its port
# errno of the failure, or 0; length of the failure's text, or the number of sockets
RESPONSE: Final = Struct(">iB")
SOCKETS_MAX: Final = 64  # addresses of one host
FIRST: Final = 0  # the number of the first request: whether the child serves
# Signals for the parent. A child starts with them blocked, because they would end it before it
# ignores them.
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_SECONDS: Final = 1.0  # between two checks whether it still serves
Configure = Callable[[], Callable[[], object]]  # sets up logging; the result ends it


class HandedListeners:
    """Listening sockets, opened by the parent. Only the event loop's thread may call it."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent

    def copies(self, node_id: int, port: int) -> list[socket.socket]:
        self._parent.sendall(REQUEST.pack(False, node_id, port))
        data, files, _, _ = socket.recv_fds(self._parent, RESPONSE.size, SOCKETS_MAX)
        while len(data) < RESPONSE.size:
            piece = self._parent.recv(RESPONSE.size - len(data))
            if not piece:
                raise OSError("the gateway's parent process has ended")
            data += piece
        code, length = RESPONSE.unpack(data)
        if code:
            text = self._parent.recv(length, socket.MSG_WAITALL) if length else b""
            raise OSError(code, text.decode(errors="replace"))
        opened = [socket.socket(fileno=file) for file in files]
        if len(opened) < length:  # the child has too few descriptors, so the system dropped some
            for one in opened:
                one.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened

    def close(self, node_id: int) -> None:
        with suppress(OSError):
            self._parent.sendall(REQUEST.pack(True, node_id, 0))

    def close_all(self) -> None:
        self._parent.close()


def serve(
    control: "Connection[Any, Any]",
    sockets: socket.socket,
    config: GatewayConfig,
    configure: Configure,
    ledgers: Ledgers,
) -> None:
    """Runs a child process. It serves until the parent tells it to stop, or dies."""
    # Terminals and service managers signal all processes. The parent decides what to do.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    end_logging = configure()
    try:
        with rare_collections():
            _serve(control, HandedListeners(sockets), config, ledgers)
    finally:
        end_logging()


def _serve(
    control: "Connection[Any, Any]",
    listeners: HandedListeners,
    config: GatewayConfig,
    ledgers: Ledgers,
) -> None:
    try:
        gateway = Gateway(config, listeners, ledgers)
        gateway.start()
    except (OSError, ConfigError) as error:
        # Logged, because the parent never asks a restarted child.
        LOG.error("this process cannot serve: %s", error)
        control.send((FIRST, error))
        return
    with suppress(EOFError, OSError):
        while gateway.is_alive:  # if it ends, the parent starts another process
            if not control.poll(LOOK_SECONDS):
                continue
            number, what, value = control.recv()
            if what == "stop":
                break
            control.send((number, _answer(gateway, what, value)))
    gateway.stop()


def _answer(gateway: Gateway, what: str, value: Any) -> object:
    try:
        match what:
            case "figures":
                return gateway.figures()
            case "reload":
                gateway.reload(value)
    except (OSError, ConfigError) as error:
        return error
    return None
