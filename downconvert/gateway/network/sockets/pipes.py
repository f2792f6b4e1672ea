"""Pipes for splicing. They are reused, because making a pipe costs as much as moving 64 KiB."""

import fcntl
import os
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple

from records.units import KiB

PIPE_SIZE: Final = 256 * KiB  # bytes that are moved at a time
KEPT_MAX: Final = 16  # free pipes of a process
_free = deque["Pipe"]()


class Pipe(NamedTuple):
    """The two ends of a pipe, both non-blocking."""

    outlet: int
    inlet: int

    def close(self) -> None:
        os.close(self.outlet)
        os.close(self.inlet)


def take() -> Pipe:
    """An empty pipe of PIPE_SIZE bytes, or of fewer if the user has too many pipes. OSError."""
    with suppress(IndexError):
        return _free.pop()
    pipe = Pipe(*os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))
    with suppress(OSError):  # the user has too many pipes: this one stays at 64 KiB
        fcntl.fcntl(pipe.inlet, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    return pipe


def give_back(pipe: Pipe, *, is_empty: bool) -> None:
    """Keeps an empty pipe for reuse, unless enough pipes are free. Closes any other."""
    if is_empty and len(_free) < KEPT_MAX:
        _free.append(pipe)
    else:
        pipe.close()
