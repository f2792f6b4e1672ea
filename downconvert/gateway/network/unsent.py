"""How much of what was written to a connection its other side has not taken.

The system says that a connection takes more when a third of its buffer is free, which may be
megabytes. A reader that is slow has taken bytes long before, and is not silent."""

import fcntl
import sys
import termios

NUMBER_SIZE = 4


def unsent(file: int) -> int:
    """Bytes in the system's buffer; of TCP, those that have not been acknowledged. 0 where the
    system does not say, or the file is closed."""
    try:
        number = fcntl.ioctl(file, termios.TIOCOUTQ, bytes(NUMBER_SIZE))
    except OSError:
        return 0
    return int.from_bytes(number, sys.byteorder)
