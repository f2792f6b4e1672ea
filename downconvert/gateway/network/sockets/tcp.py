"""The operating system's settings and figures of a connection.

It sends small messages at once. It notices that the other side has vanished (keep-alive). It counts
the written bytes that the other side has not taken. It reports a socket as writable when a third of
its buffer is free, which may be megabytes. A slow reader has taken bytes long before, and is not
silent."""

import fcntl
import select
import socket
import sys
import termios
from typing import Final

NUMBER_SIZE: Final = 4
KEEPALIVE: Final = {  # a peer that vanished is noticed in two minutes
    "TCP_KEEPIDLE": 60,  # seconds without a byte until the system asks
    "TCP_KEEPINTVL": 10,  # seconds between two questions
    "TCP_KEEPCNT": 6,  # questions without an answer
}
CLOSED: Final[int] = getattr(select, "POLLRDHUP", 0)  # the other side sends no more


def set_options(connection: socket.socket) -> None:
    """Has the system send small messages at once, and ask an idle peer whether it is still there.

    Accepted connections have the options of the socket that listens."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not all systems have these options
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def unsent(file: int) -> int:
    """Bytes in the system's buffer; for TCP, those that have not been acknowledged. 0: the system
    does not tell, or the file is closed."""
    return _count(file, termios.TIOCOUTQ)


def last_bytes(file: int) -> int | None:
    """Bytes that are left to read of a side that sends no more. None: it may send more."""
    poll = select.poll()
    poll.register(file, CLOSED)
    return _count(file, termios.FIONREAD) if poll.poll(0) else None


def _count(file: int, what: int) -> int:
    try:
        number = fcntl.ioctl(file, what, bytes(NUMBER_SIZE))
    except OSError:
        return 0
    return int.from_bytes(number, sys.byteorder)
