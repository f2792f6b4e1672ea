"""Clients and brokers that send, read, pause and end as they like, by a seed.

Not here: what must hold all the same (test_unruly.py)."""

import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from struct import Struct
from threading import Lock, Thread
from typing import Final

from tests.downconvert.gateway.listening import Listening
from tests.downconvert.gateway.serving import LENGTH
from tests.ports import LOOPBACK

RESET: Final = Struct("ii").pack(1, 0)
FAULTS: Final = ("ends", "resets", "falls silent")
MOODS: Final = ("plain", "plain", "bytes", "pieces", "bursts")
PIECE: Final = 65_536
BLOCKED: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


def reset(one: socket.socket) -> None:
    """Ends a connection without a word to who has not read all."""
    with suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    one.close()


class Unruly(Listening):
    """In front of a broker. Each connection has a mood, in which answers pass. `faults`: how many
    of ten connections end at some byte of the responses, or say nothing more."""

    def __init__(self, target: int) -> None:
        self.random, self.faults = Random(0), 0
        self._target = target
        self._lock = Lock()
        self.open = 0  # connections that one side or both have not ended
        super().__init__()

    def take(self, near: socket.socket) -> None:
        with self._lock:
            random = Random(self.random.random())
            self.open += 1
        fault = random.choice(FAULTS) if random.randrange(10) < self.faults else None
        far = socket.create_connection((LOOPBACK, self._target))
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Thread(target=self._serve, args=(near, far, random, fault), daemon=True).start()

    def _serve(
        self, near: socket.socket, far: socket.socket, random: Random, fault: str | None
    ) -> None:
        asking = Thread(target=_pass_on, args=(near, far), daemon=True)
        asking.start()
        left = random.choice([0, 5, 500, 20_000, 100_000, 1_000_000]) if fault else 1 << 40
        left += random.randrange(500) if fault else 0
        mood, small = random.choice(MOODS), 400
        with suppress(OSError):
            while piece := far.recv(PIECE):
                piece, left = piece[:left], left - len(piece)
                while piece:
                    size = len(piece)
                    if mood == "bytes" and small:
                        size, small = 1, small - 1
                    elif mood == "pieces":
                        size = random.choice([random.randrange(1, 9000), size])
                    elif mood == "bursts":
                        time.sleep(random.choice([0, 0, 0.002, 0.02]))
                    near.sendall(piece[:size])
                    piece = piece[size:]
                if left <= 0:
                    break
        if left <= 0 and fault == "falls silent":
            asking.join()  # until the gateway ends it
        if left <= 0 and fault == "resets":
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        for one in (far, near):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        asking.join()
        for one in (far, near):
            one.close()
        with self._lock:
            self.open -= 1


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until either ends."""
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@dataclass
class Habits:
    """How a client talks. `ahead`: requests without a response at a time. `end`: what it does at a
    byte that it has sent or received: reads all, closes its side, closes, resets, or sits."""

    ahead: int
    pieces: list[int]
    reads: list[int]
    pauses: list[float]
    end: str
    end_at: int

    @classmethod
    def of(cls, random: Random, size: int, *, has_tls: bool) -> "Habits":
        ends = ["reads all"] * 6 + ["closes", "resets", "sits"]
        return cls(
            random.choice([1, 1, 3, 40, 1 << 30]),
            random.choice([[1 << 30], [100, 1 << 30], [1, 7, 50_000], [3000, 20_000]]),
            random.choice([[1 << 18], [1 << 18], [100, 9000], [1, 50_000]]),
            random.choice([[0.0], [0.0] * 9 + [0.002], [0.0] * 30 + [0.05]]),
            random.choice(ends if has_tls else [*ends, "closes its side"]),
            random.randrange(max(1, random.choice([size, 300, 20_000]))),
        )


@dataclass
class Talk:
    """A client's conversation. `requests` and `wanted`: frames, and the responses of those that
    have one (None: it has none). `end`: how it came to its end."""

    requests: list[bytes]
    wanted: list[bytes | None]
    habits: Habits
    random: Random
    patience: float
    received: int = 0
    end: str = ""
    sent: int = field(init=False, default=0)
    piece: bytes = field(init=False, default=b"")
    why: str = ""

    def run(self, connect: Callable[[], socket.socket]) -> None:
        """Ends with `end`: done, ended (by the gateway), left (by itself), wrong, hangs."""
        try:
            one = connect()
        except (OSError, EOFError):
            self.end = "ended"
            return
        one.setblocking(False)
        try:
            self.end = self._talk(one)
        except OSError as error:
            self.end, self.why = "ended", str(error)
        finally:
            reset(one) if self.end == "left" and self.habits.end == "resets" else one.close()

    def _talk(self, one: socket.socket) -> str:
        data = b"".join(LENGTH.pack(len(one)) + one for one in self.requests)
        ends = list(accumulate(LENGTH.size + len(one) for one in self.requests))
        responses = b"".join(one for one in self.wanted if one is not None)
        after = list(accumulate(len(one or b"") for one in self.wanted))
        moved_at, answered, is_half = time.monotonic(), 0, False
        while True:
            while answered < len(after) and after[answered] <= self.received:
                answered += 1
            may = ends[min(answered + self.habits.ahead, len(ends)) - 1]
            if self.sent == len(data) and self.received == len(responses) and not is_half:
                return "done"
            moved = self._send(one, data[self.sent : may]) if self.sent < may else 0
            if self._is_over():
                if self.habits.end == "sits":
                    time.sleep(0.3)
                if self.habits.end != "closes its side":
                    return "left"
                if not is_half and self.sent == len(data):
                    one.shutdown(socket.SHUT_WR)
                    is_half = True
            piece = self._receive(one)
            if piece == b"":
                return "half" if is_half else "ended"
            if piece is not None:
                if responses[self.received : self.received + len(piece)] != piece:
                    return "wrong"
                self.received += len(piece)
                moved += len(piece)
                time.sleep(self.random.choice(self.habits.pauses))
            if moved:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > self.patience:
                return "hangs"
            else:
                select.select([one], [one] if self.sent < may else [], [], 0.05)

    def _is_over(self) -> bool:
        total = self.sent + self.received
        return self.habits.end != "reads all" and total >= self.habits.end_at

    def _send(self, one: socket.socket, data: bytes) -> int:
        self.piece = self.piece or data[: self.random.choice(self.habits.pieces)]
        try:
            size = one.send(self.piece)
        except BLOCKED:
            return 0  # TLS must be given the same again
        self.sent, self.piece = self.sent + size, b""
        return size

    def _receive(self, one: socket.socket) -> bytes | None:
        """None: there is nothing now."""
        try:
            return one.recv(self.random.choice(self.habits.reads))
        except BLOCKED:
            return None
