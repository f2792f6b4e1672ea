"""A client over a real socket, as plain as can be: frames out, frames in.

Not here: requests without sockets (asking.py), real clients (tests/clients)."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self

from downconvert.broker import Broker
from downconvert.broker.server import Server
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.serving.limits import Limits
from records import MemoryRecords
from records.units import KiB
from tests.downconvert.storage import logs

from .asking import LENGTH_SIZE, frame, parsed
from .fetching import broker_of

SECONDS: Final = 60.0  # for a response; it comes within milliseconds, or never
TOPIC: Final = "events"
API_VERSIONS: Final = (ApiKey.ApiVersions, 0, Message())
SMALL_BUFFER: Final = 4 * KiB
QUICK: Final = Limits(request=0.3, idle=30.0, stop=1.0)


class Talk:
    """A connection to a server."""

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
        seconds: float = SECONDS,
        source: str = "",
    ) -> None:
        """`source`: the address that it connects from."""
        plain = socket.socket()
        plain.bind((source, 0))
        if receive_buffer is not None:  # before it connects, so that the window is small
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(seconds)
        plain.connect(address)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api: ApiKey, version: int, body: SimpleNamespace) -> None:
        self.send_frame(frame(api, version, body))

    def send_frame(self, data: bytes) -> None:
        self.socket.sendall(len(data).to_bytes(LENGTH_SIZE) + data)

    def receive(self) -> bytes:
        """A frame with its length."""
        length = self._exactly(LENGTH_SIZE)
        return length + self._exactly(int.from_bytes(length))

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        left = memoryview(data)
        while left:
            count = self.socket.recv_into(left)
            assert count, f"the connection ended {len(left)} bytes too early"
            left = left[count:]
        return bytes(data)

    def ask(self, api: ApiKey, version: int, body: SimpleNamespace) -> Message:
        self.send(api, version, body)
        return self.hear(api, version)

    def hear(self, api: ApiKey, version: int) -> Message:
        """The response to a request that was sent."""
        return parsed(api, version, self.receive())

    def is_served(self) -> bool:
        return bool(self.ask(*API_VERSIONS).error_code == 0)

    def drain(self) -> int:
        """Reads up to the end of the connection, and forgets it; how much it was."""
        size = 0
        with suppress(ConnectionError):
            while more := self.socket.recv(1 << 20):
                size += len(more)
        return size

    def has_ended(self) -> bool:
        """Whether the server ends the connection, within its time, and says nothing before."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


@contextmanager
def serving(path: Path, batches: int = 3, *, size: int = 10, **options: Any) -> Iterator[Server]:
    """A server of one topic with batches of ten records."""
    made = [
        logs.batch(*range(start, start + 10), size=size) for start in range(0, batches * 10, 10)
    ]
    with broker_of(path, {TOPIC: {0: made}}) as broker, Server(broker, **options) as server:
        yield server


@contextmanager
def serving_broker(broker: Broker, **options: Any) -> Iterator[Server]:
    with Server(broker, **options) as server:
        yield server


def fetch(offset: int = 0, max_bytes: int = 1 << 20, wait: int = 0) -> Message:
    """The body of a fetch of that topic."""
    asked = Message(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return Message(
        replica_id=-1,
        max_wait_ms=wait,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[Message(topic=TOPIC, partitions=[asked])],
    )


def fetched(talk: Talk, version: int = 2, offset: int = 0) -> list[int]:
    """The last offsets of the batches that come."""
    response = talk.ask(ApiKey.Fetch, version, fetch(offset))
    (partition,) = response.responses[0].partitions
    assert partition.error_code == 0
    batches = MemoryRecords(bytes(partition.records)).batches()
    return [header.last_offset for header in batches]


def eventually(make: Callable[[], Talk], holds: Callable[[Talk], bool]) -> bool:
    """Whether it holds before the time is up."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            with make() as talk:
                if holds(talk):
                    return True
        except (AssertionError, OSError):
            time.sleep(0.01)
    return False
