"""How much memory does `downconvert serve` take for consumers that stopped reading, and for idle
connections?

The server is a process of its own. Old consumers fetch 1 MB of an uncompressed topic, in v1
messages. Each receives the beginning of its response and then stops reading. The growth of the
process is divided by their number. Idle connections have sent one ApiVersions request.

    python -m bench.serving memory [--consumers 1000] [--idle 10000]"""

import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from downconvert.protocol.schemas import ApiKey, Message
from records.units import KiB, MiB
from simulator import Workload
from simulator import generate as write_segments

from .draining import Wire, fetch, request
from .processes import PATIENCE, Serving, served, settled

CONSUMER_LIMIT: Final = 64 * KiB
IDLE_LIMIT: Final = 200_000_000  # bytes, of the whole process
TOPIC: Final = "none-1000"
WORKLOAD: Final = "codec=none,record=1000,size=2MiB"
FETCH_SIZE: Final = MiB
OLD: Final = 2  # Fetch
RECEIVE: Final = 4096  # bytes of the system's buffer at a consumer
SEGMENT: Final = 1460  # bytes, as over Ethernet: with loopback's the system buffers whole responses
SPARE_FILES: Final = 200


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a server's resident memory, in bytes, by a number of connections."""

    connections: int
    before: int
    after: int

    @property
    def each(self) -> float:
        return (self.after - self.before) / self.connections

    def line(self, what: str) -> str:
        grown = (self.after - self.before) / 1e6
        return (
            f"{self.connections:,} {what}: {grown:,.1f} MB more, {self.each / KiB:.1f} KiB each; "
            f"{self.after / 1e6:,.1f} MB in all"
        )


def allow_files(count: int) -> None:
    """Raises the limit of open files for this process and those that it starts. ValueError: the
    system refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@contextmanager
def uncompressed() -> Iterator[Serving]:
    """A server of one uncompressed topic, which has converted once."""
    with TemporaryDirectory(prefix="serving-memory-") as directory:
        write_segments(Workload.parse(WORKLOAD), Path(directory) / f"{TOPIC}-0")
        with served(Path(directory)) as serving:
            with Wire(serving.address) as wire:
                wire.send(fetch(OLD, TOPIC, 0, FETCH_SIZE))
                if wire.drain() < FETCH_SIZE // 2:
                    raise RuntimeError("the server has not answered with what was asked for")
            yield serving


@contextmanager
def stalled(serving: Serving, count: int) -> Iterator[Growth]:
    """The growth by old consumers that have received the first bytes of a response and read
    nothing. They stay connected until the context ends."""
    before = settled(lambda: serving.resident)
    with ExitStack() as stack:
        consumers = []
        for _ in range(count):
            consumer = stack.enter_context(socket.socket())
            consumer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)
            consumer.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
            consumer.settimeout(PATIENCE)
            consumer.connect(serving.address)
            consumer.sendall(fetch(OLD, TOPIC, 0, FETCH_SIZE))
            consumers.append(consumer)
        for consumer in consumers:
            if not consumer.recv(1, socket.MSG_PEEK):
                raise RuntimeError("the server has closed a connection")
        after = settled(lambda: serving.resident)
        if _most_in_buffers(serving.address[1]) >= FETCH_SIZE // 2:
            raise RuntimeError("the system has taken responses off the server: nobody was stalled")
        yield Growth(count, before, after)


def _most_in_buffers(port: int) -> int:
    """The largest number of bytes that the system buffers for a connection of a server."""
    most = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port:
            most = max(most, int(fields[4].partition(":")[0], 16))
    return most


def idle(serving: Serving, count: int) -> Growth:
    """The growth by connections that have been answered once, and send nothing more."""
    before = settled(lambda: serving.resident)
    versions = request(ApiKey.ApiVersions, 0, Message())
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(
                socket.create_connection(serving.address, timeout=PATIENCE)
            )
            connection.sendall(versions)
            if not connection.recv(KiB):
                raise RuntimeError("the server has closed a connection")
        return Growth(count, before, settled(lambda: serving.resident))


def measure(consumers: int, connections: int) -> None:
    """Prints both figures. Ends the program if a limit is exceeded."""
    allow_files(max(consumers, connections))
    with uncompressed() as serving, stalled(serving, consumers) as old:
        print(old.line("old consumers that read nothing"), flush=True)
    with uncompressed() as serving:
        quiet = idle(serving, connections)
        print(quiet.line("idle connections"), flush=True)
    if old.each > CONSUMER_LIMIT or quiet.after > IDLE_LIMIT:
        sys.exit("that is more than it may be")
