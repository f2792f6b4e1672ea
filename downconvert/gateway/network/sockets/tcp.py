"""The operating system's settings and figures of a connection.

The system sends small messages at once. It notices that the other side has vanished (keep-alive).
It counts the written bytes that the other side has not taken. That count shows the progress of a
slow reader early. The system reports a socket as writable only when a third of its buffer is free,
which may be megabytes."""

import fcntl
import select
import socket
import sys
import termios
from typing import Final

NUMBER_SIZE: Final = 4
KEEPALIVE: Final = {  # detects a vanished peer within two minutes
    "TCP_KEEPIDLE": 60,  # seconds without a byte until the first probe
    "TCP_KEEPINTVL": 10,  # seconds between two probes
    "TCP_KEEPCNT": 6,  # unanswered probes until the connection is closed
}
CLOSED: Final[int] = getattr(select, "POLLRDHUP", 0)  # the other side sends no more


def set_options(connection: socket.socket) -> None:
    """Turns off Nagle's algorithm, and turns on keep-alive.

    Accepted connections inherit the options of the listening socket."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not all systems have these options
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def unsent(file: int) -> int:
    """Bytes in the system's send buffer; for TCP, the unacknowledged ones. 0 also if the system
    does not report it, or the file is closed."""
    return _count(file, termios.TIOCOUTQ)


def last_bytes(file: int) -> int | None:
    """Bytes left to read from a side that sends no more. None: it may send more."""
    poll = select.poll()
    poll.register(file, CLOSED)
    return _count(file, termios.FIONREAD) if poll.poll(0) else None


def _count(file: int, what: int) -> int:
    try:
        number = fcntl.ioctl(file, what, bytes(NUMBER_SIZE))
    except OSError:
        return 0
    return int.from_bytes(number, sys.byteorder)
