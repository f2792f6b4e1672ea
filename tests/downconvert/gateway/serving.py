"""A gateway over real sockets, in front of our own server as a cluster or of real brokers."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from struct import Struct
from typing import Any, Final

from downconvert.broker import Broker, BrokerConfig
from downconvert.broker.server import Server
from downconvert.gateway.config import GatewayConfig
from downconvert.gateway.network.listeners import ListensFor
from downconvert.gateway.server import Gateway
from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from tests.certificates import self_signed
from tests.downconvert.broker.asking import frame, parsed
from tests.ports import LOOPBACK, free_ports

from .cluster import modern

LENGTH: Final = Struct(">i")
TIMEOUT: Final = 60.0  # seconds, on a machine that does other things


@contextmanager
def gateway(
    *bootstrap: int, nodes: int = 1, listeners: ListensFor | None = None, **options: Any
) -> Iterator[Gateway]:
    """In front of a cluster whose brokers listen on these ports."""
    first, *others = free_ports(1 + nodes)
    config = GatewayConfig(
        bootstrap=tuple(Address(LOOPBACK, port) for port in bootstrap),
        listen=Address(LOOPBACK, first),
        node_ports=dict(enumerate(others)),
    )
    with Gateway(replace(config, **options), listeners) as running:
        yield running


# Records of tests are old, and retention begins 30 s after a start: on a busy machine, amid a test.
KEPT: Final = {"retention.ms": "-1"}


@contextmanager
def cluster(
    directory: Path,
    *topics: str,
    modernly: bool = True,
    port: int | None = None,
    advertise: int | None = None,
) -> Iterator[tuple[Broker, int]]:
    """Our own broker, which takes what Kafka 4 takes, and its port. The system gives that to nobody
    else, so that it cannot be reached once it has ended."""
    if port is None:
        (port,) = free_ports(1)
    with LogDir.open(directory, writable=True) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True, group_initial_rebalance_delay_ms=0))
        for topic in topics:
            broker.topics.create(topic, 1, KEPT, 0)
        known = None if advertise is None else (LOOPBACK, advertise)
        served = modern(broker) if modernly else broker
        with Server(served, (LOOPBACK, port), advertise=known) as server:
            yield broker, server.address[1]


class Wire:
    """A client without a library, which sends whole requests and parts of them."""

    received = 0  # bytes

    def __init__(self, address: Address, **options: int) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT)
        for option, value in options.items():
            self.socket.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)

    def start_tls(self, certificate: Path, own: tuple[Path, Path] | None = None) -> None:
        """`certificate`: the one to trust. `own`: this client's certificate and key."""
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        if own is not None:
            context.load_cert_chain(*own)
        self.socket = context.wrap_socket(self.socket)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(
        self, api: ApiKey, version: int, body: Message, client_id: str | None = "test"
    ) -> None:
        data = frame(api, version, body, client_id)
        self.socket.sendall(LENGTH.pack(len(data)) + data)

    def ask(self, api: ApiKey, version: int, body: Message) -> Message:
        self.send(api, version, body)
        return parsed(api, version, self.receive())

    def receive(self) -> bytes:
        """A response with its length. EOFError: the connection ended."""
        size = self.take(LENGTH.size)
        return size + self.take(LENGTH.unpack(size)[0])

    def take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            piece = self.socket.recv(size - len(taken))
            if not piece:
                raise EOFError(f"{len(taken)} of {size} bytes")
            taken += piece
        self.received += size
        return bytes(taken)

    def receive_slowly(self, piece_size: int) -> bytes:
        """As `receive`, in many small reads."""
        whole = self.take(LENGTH.size)
        (left,) = LENGTH.unpack(whole)
        while left:
            piece = self.take(min(left, piece_size))
            whole += piece
            left -= len(piece)
        return whole

    def has_ended(self) -> bool:
        """Waits for the end; whether it came without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


@contextmanager
def over_tls(path: Path) -> Iterator[tuple[Broker, Wire]]:
    """The broker of a topic `t`, and a client of the gateway in front of it, which has TLS."""
    (path / "log").mkdir()
    certificate, key = self_signed(path)
    with (
        cluster(path / "log", "t") as (broker, port),
        gateway(port, tls_cert=certificate, tls_key=key) as running,
        Wire(running.address) as client,
    ):
        client.start_tls(Path(certificate))
        yield broker, client
