"""Wakes a thread that waits in its selector."""

import socket
from contextlib import suppress


class Wake:
    """Wakes the thread that has `reader` in its selector. Any thread may ring, any number of
    times."""

    def __init__(self) -> None:
        self._is_rung = False
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)

    def ring(self) -> None:
        if self._is_rung:
            return
        self._is_rung = True
        with suppress(OSError):  # the buffer is full, or the thread has ended
            self._writer.send(b"!")

    def drain(self) -> None:
        """Clears the wake-ups. The thread must look for work after this call, not before it."""
        with suppress(BlockingIOError, InterruptedError):
            while self.reader.recv(1024):
                pass
        # After the read, so that a later ring writes another byte and wakes the thread again.
        self._is_rung = False

    def close(self) -> None:
        self.reader.close()
        self._writer.close()
