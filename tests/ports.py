"""Ports for servers that must know theirs before they listen.

They are below those that the system hands out to whoever asks for any (on Linux 32768 and up), so
that no connection of another test takes one between its choice and its use."""

import os
import random
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_ALL: Final = range(10_000, 32_768)
# The parts of a run (tests/in_parts.py) share no port: none gets one that another has just left.
_PART, _PARTS = map(int, os.environ.get("TESTS_PART", "0/1").split("/"))
_RANGE: Final = _ALL[len(_ALL) * _PART // _PARTS : len(_ALL) * (_PART + 1) // _PARTS]
# A server may take seconds until it binds its port. Until then no other process may choose it.
CLAIMS_MAX: Final = min(64, len(_RANGE) // 2)
_claims: Final[deque[socket.socket]] = deque()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, none of them twice in a process. Other processes do not get the
    last CLAIMS_MAX of them."""
    return [next(_ports) for _ in range(count)]


def claims() -> set[int]:
    """The descriptors that keep ports from other processes."""
    return {claim.fileno() for claim in _claims}


def wait_for_server(
    port: int, process: "subprocess.Popen[bytes]", message: Callable[[], str], seconds: float
) -> None:
    """Returns when the process takes connections; fails with what it has said where it ends before
    that, or takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, message()
        try:
            socket.create_connection((LOOPBACK, port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"it does not answer: {message()}")


def _free() -> Iterator[int]:
    start = random.SystemRandom().randrange(len(_RANGE))  # other processes start elsewhere
    while True:
        port = _RANGE[start % len(_RANGE)]
        start += 1
        claim = socket.socket()
        try:
            claim.bind((LOOPBACK, port))
        except OSError:
            claim.close()
            continue
        # From now on, programs that listen may bind it, as all of them set this option. Another
        # claim, which does not, fails.
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _claims.append(claim)
        if len(_claims) > CLAIMS_MAX:
            _claims.popleft().close()
        yield port


_ports: Final = _free()
