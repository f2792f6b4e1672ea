"""Many clients of one server at a time, each of which does as it likes.

They send whole requests, in pieces and ahead, read slowly, stop sending, or vanish at any byte.
Each response must be a right one, and in its place. Clients of another address may begin requests
and never end them: nobody waits for those. Afterwards nothing of theirs may be left.

A longer run: python -m tests.downconvert.broker.network.crowd SEED SECONDS

Not here: the requests (crowd_requests.py)."""

import gc
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from struct import pack
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from downconvert.access.rights import Access
from downconvert.broker.endings import End
from downconvert.broker.exchange import Exchange
from downconvert.broker.fetch import chunk_budget, planning, shared_range
from downconvert.broker.fetch.conversion_cache import ConversionCache
from downconvert.broker.fetch.conversions_under_way import ConversionsUnderWay
from downconvert.broker.fetch.fetch_read import FetchRead
from downconvert.broker.network.connection import Connection
from downconvert.broker.server import Server
from downconvert.conversion.made import budget as made_budget
from downconvert.serving.limits import Limits
from downconvert.serving.planning_slots import PlanningSlots
from downconvert.serving.tls import server_context
from records.units import KiB, MiB
from tests.certificates import self_signed
from tests.downconvert.broker.asking import value
from tests.downconvert.broker.guarding import guard_of
from tests.downconvert.broker.writable import writable_broker
from tests.waiting import wait_for

from .crowd_requests import Asked, Produced, Topics

BUFFER: Final = 64 * KiB  # of a socket; with much less, TCP itself waits
ELSEWHERE: Final = "127.0.0.2"
HANGS: Final = 30.0  # seconds without a byte for anybody
NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
KEPT: Final = (Connection, Exchange, FetchRead)
ENDS: Final = ("stays", "stays", "stays", "half-closes", "vanishes", "resets")


class Visitor:
    """A client: its requests, and how it sends, reads and ends."""

    def __init__(
        self, number: int, address: tuple[str, int], tls: ssl.SSLContext | None, random: Random
    ) -> None:
        self.number = number
        self.produced = Produced()
        self.is_over = False
        self.is_whole = False  # all of it was answered
        self._random = random
        self._makers: deque[Callable[[], Asked]] = deque()
        self._waiting: deque[tuple[int, Asked]] = deque()  # with a response to come
        self._numbers = iter(range(1 << 30))
        self._out = self._in = b""
        self._piece = 0  # bytes of it that are sent next; TLS does not let them change
        self._window = random.choice([1, 1, 2, 5, 100])
        self._pieces = random.choice([[1 << 20], [100, 5000, 1 << 20], [1, 3, 100, 20_000]])
        self._reads = random.choice(
            [[1 << 20], [1, 4 * KiB, 170 * KiB], [300, 5000, 20 * KiB, 90 * KiB]]
        )
        self._pauses = random.choice([[0.0], [0.0] * 9 + [0.003], [0.0] * 50 + [0.03]])
        self._reads_at = self._sends_at = 0.0
        self._end = "stays" if number == 0 else random.choice(ENDS)
        if self._end == "half-closes" and tls is not None:
            self._end = "vanishes"
        self._left = random.randrange(1, 1 << random.randrange(8, 20))  # bytes until it vanishes
        plain = socket.socket()
        if random.random() < 0.7:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        plain.connect(address)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self.socket.setblocking(False)

    def __repr__(self) -> str:
        kinds = [int.from_bytes(one.frame[:2]) for _, one in self._waiting]
        return (
            f"client {self.number}: {self._end}, {len(self._makers)} requests to send, "
            f"{len(self._out)} bytes of one, waits for {kinds}, has {len(self._in)} bytes"
        )

    def plan(self, topics: Topics, count: int) -> None:
        makers = [
            lambda: topics.fetch(self._random),
            lambda: topics.produce(self._random, self.produced, self.number),
            lambda: topics.other(self._random),
        ]
        self._makers = deque(self._random.choices(makers, (6, 2, 3), k=count))
        self._makers.append(makers[-1])  # its response shows that all others were handled

    def step(self, now: float) -> bool:
        """Sends or reads a little. Returns whether anything came of it."""
        try:
            sent = self._sends_at <= now and self._send(now)
            return (self._reads_at <= now and self._read(now)) or sent
        except NOT_NOW:
            return False
        except ConnectionError:
            assert self._end != "stays", f"{self} is disconnected"
            self.close()
            return True

    def _send(self, now: float) -> bool:
        while not self._out and self._makers and len(self._waiting) < self._window:
            asked = self._makers.popleft()()
            number = next(self._numbers)
            frame = asked.frame[:4] + number.to_bytes(4) + asked.frame[8:]
            self._out += len(frame).to_bytes(4) + frame
            if asked.check is not None:
                self._waiting.append((number, asked))
            if self._window > 1 and self._random.random() < 0.8:
                break
        if not self._out:
            if not self._makers and self._end == "half-closes":
                self.socket.shutdown(socket.SHUT_WR)
                self._end = "has half-closed"
            return False
        self._piece = self._piece or self._random.choice(self._pieces)
        try:
            sent = self.socket.send(self._out[: self._piece])
        except NOT_NOW:
            return False
        self._out, self._piece = self._out[sent:], 0
        self._sends_at = now + self._random.choice(self._pauses)
        self._count(sent)
        return True

    def _read(self, now: float) -> bool:
        if self.is_over:
            return False
        got = self.socket.recv(self._random.choice(self._reads))
        self._reads_at = now + self._random.choice(self._pauses)
        if not got:
            assert self._end != "stays", f"{self} is disconnected"
            self.close()
            return True
        self._in += got
        self._count(len(got))
        while not self.is_over and len(self._in) >= 4:
            end = 4 + int.from_bytes(self._in[:4])
            if len(self._in) < end:
                break
            self._take(self._in[:end])
            self._in = self._in[end:]
        if not (self.is_over or self._makers or self._out or self._waiting):
            assert not self._in
            self.is_whole = True
            self.close()
        return True

    def _take(self, response: bytes) -> None:
        number, asked = self._waiting.popleft()
        assert int.from_bytes(response[4:8]) == number, f"{self}: {number} is not answered in turn"
        assert asked.check is not None
        asked.check(response[:4] + (7).to_bytes(4) + response[8:])

    def _count(self, size: int) -> None:
        """Vanishes after so many bytes, if it is to."""
        self._left -= size
        if self._left <= 0 and self._end in ("vanishes", "resets") and not self.is_over:
            if self._end == "resets":
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
            self.close()

    def close(self) -> None:
        self.is_over = True
        self.socket.close()


def run(path: Path, seed: int, clients: int, requests: int, tls: tuple[Path, Path] | None) -> None:
    """One server and its clients. AssertionError: a response is wrong, or something is left."""
    random = Random(seed)
    theirs = None if tls is None else ssl.create_default_context(cafile=tls[0])
    ours = None if tls is None else server_context(*tls)
    kept, memory = random.choice([0, 100 * KiB, MiB, 16 * MiB]), random.choice([64 * KiB, 4 * MiB])
    with (
        _small_turns(random),
        writable_broker(path, cleans_up=False, conversions_kept_bytes=kept) as broker,
    ):
        under_way = ConversionsUnderWay(random.choice([1, 3, 64]))
        broker.conversion_cache = cache = ConversionCache(broker.memory_budget, under_way)
        broker.planning_slots = PlanningSlots(random.choice([1, 2, 8]))
        if random.random() < 0.3:
            rates = Access(producer_byte_rate=4e6, consumer_byte_rate=40e6)
            broker.guard = guard_of(None, rates)
        topics = Topics(broker, random)
        made, limits = made_budget.left, Limits(requests_memory=memory, request=600.0)
        server = Server(
            broker,
            limits=limits,
            tls=ours,
            network_threads=random.choice([1, 2]),
            converting_threads=random.choice([1, 2]),
        )
        with server, ExitStack() as stack, without_collector():
            sockets, before = open_sockets(), held_objects()
            for _ in range(random.choice([0, 0, 1, 20])):
                stack.callback(never_ending(server.address, theirs, memory // 4).close)
            visitors = []
            for number in range(clients):
                one = Visitor(number, server.address, theirs, Random(random.random()))
                stack.callback(one.close)
                one.plan(topics, requests)
                visitors.append(one)
            talk(visitors)
            stack.close()
            wait_for(lambda: not server.places)
            wait_for(lambda: open_sockets() <= sockets)
            assert server.is_alive
            assert server.memory.free == server.unread.free == memory
            assert len(broker.purgatory) == len(broker.planning_slots) == 0
            assert under_way.clients_count == 0
            wait_for(lambda: made_budget.left >= made)
            wait_for(lambda: held_objects() <= before + 1)  # the acceptor has the last connection
            for number in range(chunk_budget.LARGE_MAX):  # as many as there may be
                assert broker.chunk_budget.policy_for(-number).chunk_size == chunk_budget.LARGE
            for _ in range(100):  # so much else is fetched that nothing stays
                cache.note_asked((), 0, 10 * MiB + 10 * kept)
            assert len(cache) == 0
            assert cache.under_way or not broker.memory_budget.held
            for end in (End.DEFECT, End.RESPONSE, End.TIMEOUT, End.REQUEST):
                assert not value(broker, "connections_ended_total", reason=end), end
        topics.check_live([(one.produced, one.is_whole) for one in visitors])


def never_ending(address: tuple[str, int], tls: ssl.SSLContext | None, size: int) -> socket.socket:
    """A client of another address that has sent so many bytes of a request, and sends no more."""
    plain = socket.create_connection(address, source_address=(ELSEWHERE, 0))
    client = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
    client.setblocking(False)
    with suppress(*NOT_NOW):
        client.sendall(Limits().request_size.to_bytes(4) + bytes(size))
    return client


@contextmanager
def without_collector() -> Iterator[None]:
    """Memory is released at once. Nothing waits for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def talk(visitors: list[Visitor]) -> None:
    """Lets all of them do a little in turns, until they have ended."""
    last = time.monotonic()
    while left := [one for one in visitors if not one.is_over]:
        now = time.monotonic()
        if sum(one.step(now) for one in left):
            last = now
        else:
            assert now - last < HANGS, "\n".join(map(repr, left))
            time.sleep(0.0003)


def held_objects() -> int:
    """The number of objects that belong to connections."""
    return sum(isinstance(one, KEPT) for one in gc.get_objects())


def open_sockets() -> int:
    """The number of this process's sockets."""
    count = 0
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += str(file.readlink()).startswith("socket:")
    return count


@contextmanager
def _small_turns(random: Random) -> Iterator[None]:
    """Conversions need many turns, and a client that reads slowly is soon waited for."""
    create = socket.create_server

    def small(*args: Any, **options: Any) -> socket.socket:
        listener = create(*args, **options)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        return listener

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "create_server", small)
        patch.setattr(chunk_budget, "LARGE_MAX", random.choice([1, 16]))
        patch.setattr(planning, "PLANNED_A_TURN", random.choice([1, 100 * KiB, 6 * MiB]))
        patch.setattr(shared_range, "WORK_A_TURN", random.choice([1, 100 * KiB, 2 * MiB]))
        patch.setattr(shared_range, "CHUNK_SIZE", random.choice([20 * KiB, 128 * KiB]))
        yield


def main(seed: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    with TemporaryDirectory() as directory:
        certificate, key = self_signed(Path(directory))
        while time.monotonic() < until:
            print(f"seed {seed}", flush=True)
            tls = (Path(certificate), Path(key)) if seed % 3 == 0 else None
            with TemporaryDirectory() as logs:
                run(Path(logs), seed, 40, 25, tls)
            seed += 1


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
