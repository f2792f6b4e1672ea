"""Counts the written bytes that the other side of a connection has not taken.

The system reports a socket as writable when a third of its buffer is free, which may be megabytes.
A slow reader has taken bytes long before, and is not silent."""

import fcntl
import sys
import termios

NUMBER_SIZE = 4


def unsent(file: int) -> int:
    """Bytes in the system's buffer; for TCP, those that have not been acknowledged. 0: the system
    does not tell, or the file is closed."""
    try:
        number = fcntl.ioctl(file, termios.TIOCOUTQ, bytes(NUMBER_SIZE))
    except OSError:
        return 0
    return int.from_bytes(number, sys.byteorder)
