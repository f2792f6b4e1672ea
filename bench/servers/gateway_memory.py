"""How much memory does a gateway take for clients that read slowly, and for a large response?

The gateway is a process of its own in front of our server. Each old consumer receives the beginning
of a large response, and then stops reading. The growth of the process is divided by the number of
consumers. Pages of files do not count, because the system can take them back.

Connections use TCP segments of Ethernet's size. With the larger segments of the loopback device,
the system would buffer megabytes for each consumer, and the gateway would hold nothing.

    python -m bench.gateway memory --consumers 1000"""

import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from downconvert.gateway.topology import Address
from downconvert.protocol.schemas import ApiKey
from records import Codec
from records.units import KiB, MiB
from tests.downconvert.gateway.serving import Wire, cluster
from tests.downconvert.gateway.talk import fetch_body
from tests.downconvert.storage.logs import batch

from .gateway_clients import in_front
from .processes import PATIENCE, Serving, settled

CONSUMERS: Final = 1000
LIMIT: Final = 48 * KiB  # for a consumer
RESPONSE: Final = 50 * MiB
RESPONSE_LIMIT: Final = 2 * MiB  # for one large response
BUDGET: Final = (
    64 * KiB
)  # for all responses together: so little that each consumer's own need shows
SLOW: Final = MiB  # a response that is larger than the system's buffers
SEGMENT: Final = 1460  # bytes
RECORD: Final = 1000  # bytes
BATCH: Final = 100  # records
RECEIVE: Final = 4096  # bytes of the system's buffer at a consumer


@dataclass(frozen=True, slots=True)
class Held:
    """The growth of the process in bytes."""

    consumers: int
    by_consumers: int
    by_response: int
    response: int

    @property
    def by_consumer(self) -> int:
        return self.by_consumers // max(self.consumers, 1)


@contextmanager
def gateway(size: int, codec: Codec = Codec.NONE) -> Iterator[Serving]:
    """A gateway in front of a topic of about `size` bytes."""
    with TemporaryDirectory() as directory, cluster(Path(directory), "t") as (broker, port):
        partition = broker.topics.partition("t", 0)
        assert partition is not None
        for first in range(0, max(size // RECORD, BATCH), BATCH):
            offsets = range(first, first + BATCH)
            partition.log.writer.append(batch(*offsets, size=RECORD, codec=codec))
        config = Path(directory) / "gateway.toml"
        config.write_text(f"limits = {{ memory = {BUDGET} }}\n")
        with in_front(f"127.0.0.1:{port}", "--config", str(config)) as serving:
            yield serving


class Slow(Wire):
    """A consumer for which the system buffers little."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)
        self.socket.connect(address)


def ask(client: Wire, max_bytes: int, version: int = 1) -> None:
    client.send(ApiKey.Fetch, version, fetch_body(0, max_bytes=max_bytes))


def measure(consumers: int, response: int, codec: Codec = Codec.NONE) -> Held:
    """Measures this many consumers that stop reading, and then one response of this size."""
    with gateway(max(response, SLOW), codec) as serving, ExitStack() as stack:
        for _ in range(20):  # a warm-up: the gateway makes everything that it makes only once
            with Wire(Address(*serving.address)) as client:
                ask(client, SLOW)
                client.receive()
        before = settled(lambda: serving.memory)
        for _ in range(consumers):
            client = stack.enter_context(Slow(Address(*serving.address)))
            ask(client, SLOW)
            client.take(RECEIVE)
        by_consumers = settled(lambda: serving.memory) - before
        before = serving.memory
        most = 0
        with Wire(Address(*serving.address)) as client:
            ask(client, response)
            left = int.from_bytes(client.take(4))
            while left:
                left -= len(client.take(min(left, 256 * KiB)))
                most = max(most, serving.memory)
        return Held(consumers, by_consumers, max(most - before, 0), response)


@click.command()
@click.option("--consumers", default=CONSUMERS, help="That read slowly.")
@click.option("--answer", "response", default=RESPONSE, help="Bytes of a large response.")
@click.option("--codec", type=click.Choice([one.name.lower() for one in Codec]), default="none")
def memory(consumers: int, response: int, codec: str) -> None:
    """Measures the memory for slow consumers and for a large response."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = measure(consumers, response, Codec[codec.upper()])
    click.echo(f"{held.consumers:,} slow consumers: {held.by_consumer / KiB:.1f} KiB each")
    click.echo(f"a response of {response / MiB:.0f} MiB: {held.by_response / MiB:.1f} MiB")
    sys.exit(held.by_consumer > LIMIT or held.by_response > RESPONSE_LIMIT)
