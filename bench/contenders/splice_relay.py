"""A relay that only moves bytes between clients and a server: the upper limit of any gateway's
speed on this machine.

Each direction of a connection is a thread that blocks in splice(2), in a process of its own."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Process
from threading import Thread
from typing import Final

from bench.servers.draining import Address
from records.units import KiB

PIPE_SIZE: Final = 256 * KiB  # bytes: as the gateway's
HOST: Final = "127.0.0.1"


def move(source: socket.socket, target: socket.socket) -> None:
    """Moves bytes until the source ends."""
    outlet, inlet = os.pipe()
    fcntl.fcntl(inlet, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    try:
        with suppress(OSError):  # one of the two sockets is closed
            while size := os.splice(source.fileno(), inlet, PIPE_SIZE):
                while size:
                    size -= os.splice(outlet, target.fileno(), size)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
    finally:
        os.close(outlet)
        os.close(inlet)


def serve(listener: socket.socket, server: Address) -> None:
    """Connects each client with the server, for ever."""
    while True:
        client, _ = listener.accept()
        upstream = socket.create_connection(server)
        for one in (client, upstream):
            one.settimeout(None)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for ends in ((client, upstream), (upstream, client)):
            Thread(target=move, args=ends, daemon=True).start()


@contextmanager
def relayed(server: Address) -> Iterator[Address]:
    """The address of a relay to this server."""
    with socket.create_server((HOST, 0)) as listener:
        relay = Process(target=serve, args=(listener, server), daemon=True)
        relay.start()
        try:
            yield HOST, listener.getsockname()[1]
        finally:
            relay.terminate()
            relay.join()
