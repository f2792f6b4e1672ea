"""Does a client of a gateway ever get a byte of another client, or of another record?

Producers of old and new versions write to many topics through one gateway. The content of each
record follows from its topic, partition and offset. Every consumer always has a fetch open. Fetches
are of one topic or several, from offsets anywhere in the log, of some bytes or of megabytes, and in
versions that are converted, recompressed or passed through. Some consumers read half a response and
disconnect, and a new connection gets the number of theirs. Every byte of every record is compared.

    python -m bench.isolation --minutes 10 --seed 1

The gateway is a process of its own, in front of our own server, which accepts the versions of Kafka
4.

Not here: responses of a failing cluster (tests/downconvert/gateway/test_faults.py)."""

import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import click

from records import Codec
from records.units import KiB, MiB
from tests.downconvert.gateway.serving import cluster

from .servers.draining import Address
from .servers.gateway_clients import in_front
from .servers.old_clients import Consumer, Contents, OldClient, Producer, WrongBytesError, answered

# Sizes of records, the version of Produce that writes them, and the codec: each is a topic.
SHAPES: Final = (
    (40, 0, Codec.NONE),
    (400, 1, Codec.GZIP),
    (4_000, 2, Codec.SNAPPY),
    (400, 3, Codec.LZ4),
    (40_000, 3, Codec.NONE),
    (1_000, 7, Codec.ZSTD),
)
FETCH_VERSIONS: Final = (0, 1, 2, 3, 4, 9, 10, 12)
LIMITS: Final = (64 * KiB, 256 * KiB, 4 * MiB)  # of a partition in a response
KEPT: Final = 16 * MiB  # bytes of a topic that are read again; beyond that nothing is written to it
ENDED: Final = (EOFError, ConnectionError, TimeoutError)
TRIES: Final = 20  # to reconnect
PIECE: Final = 100  # bytes of a response that a client reads before it disconnects


class Load:
    """All clients of one gateway. One step is a turn of each."""

    def __init__(self, address: Address, consumers: int, seed: int, stack: ExitStack) -> None:
        self.became = Counter[str]()
        self._random = Random(seed)
        self._producers = [
            stack.enter_context(Producer(address, Contents(topic, size=size), version, codec))
            for topic, (size, version, codec) in zip(topics(), SHAPES, strict=True)
        ]
        for producer in self._producers:
            producer.produce(10, now_ms())
        self._ends = {producer.contents: producer for producer in self._producers}
        self._consumers = [
            stack.enter_context(self._consumer(address, number)) for number in range(consumers)
        ]

    def _consumer(self, address: Address, number: int) -> Consumer:
        version = FETCH_VERSIONS[number % len(FETCH_VERSIONS)]
        # Any topic suits any version: zstd is passed through from version 10 on, and never before.
        of = self._random.sample(list(self._ends), self._random.choice((1, 1, 2, len(self._ends))))
        return Consumer(address, *of, version=version)

    def step(self) -> None:
        """WrongBytesError: a client got data that is not its own."""
        random = self._random
        writing = [one for one in self._producers if one.next_offset * one.contents.size < KEPT]
        waiting = []
        for producer in writing:
            with self._again(producer):
                producer.send(random.randint(1, 20), now_ms())
                waiting.append(producer)
        for consumer in self._consumers:
            if not consumer.is_asking and random.random() < 0.5:
                self._seek_randomly(consumer)
            with self._again(consumer):
                consumer.ask()
        for producer in waiting:
            with self._again(producer):
                producer.acknowledged()
        for consumer in answered(self._consumers, 0.05):
            if random.random() < 0.05:
                self._leave(consumer)
            else:
                with self._again(consumer):
                    self.became["records"] += len(consumer.take())
                    self.became["answers"] += 1

    @contextmanager
    def _again(self, client: OldClient) -> Iterator[None]:
        """Reconnects a client if its connection ends in the block, perhaps by a time-out on a busy
        machine. That is no wrong byte."""
        try:
            yield
        except ENDED:
            self.became["ended"] += 1
            self._reconnect(client)

    def _reconnect(self, client: OldClient) -> None:
        for _ in range(TRIES):
            with suppress(*ENDED):
                client.reconnect()
                if isinstance(client, Producer):
                    client.find_end()
                return
        raise RuntimeError("the gateway does not serve any more")

    def _seek_randomly(self, consumer: Consumer) -> None:
        consumer.max_bytes = self._random.choice(LIMITS)
        for contents in consumer.next_offsets:
            end = self._ends[contents].next_offset
            consumer.next_offsets[contents] = self._random.randrange(end)

    def _leave(self, consumer: Consumer) -> None:
        """Disconnects in the middle of a response, with a reset, so that the rest is dropped."""
        with self._again(consumer):
            consumer.wire.exactly(self._random.randint(1, PIECE))
        linger = (1).to_bytes(4, "little") + bytes(4)
        consumer.wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        consumer.reconnect()
        self.became["left"] += 1


def topics() -> Sequence[str]:
    return [f"topic-{number}" for number in range(len(SHAPES))]


def now_ms() -> int:
    return int(time.time() * 1000)


@click.command(help=(__doc__ or "").partition("\n\n    ")[0])
@click.option("--minutes", default=10.0, show_default=True)
@click.option("--consumers", default=32, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--workers", default=1, show_default=True, help="Processes of the gateway.")
def main(minutes: float, consumers: int, seed: int, workers: int) -> None:
    with TemporaryDirectory(prefix="isolation-") as directory, ExitStack() as stack:
        _, port = stack.enter_context(cluster(Path(directory), *topics()))
        options = ("--workers", str(workers)) if workers > 1 else ()
        gateway = stack.enter_context(in_front(f"127.0.0.1:{port}", *options))
        load = Load(gateway.address, consumers, seed, stack)
        end = time.monotonic() + minutes * 60
        try:
            while time.monotonic() < end:
                load.step()
        except WrongBytesError as error:
            click.echo(f"{dict(load.became)}, then: {error}", err=True)
            again = f"--seed {seed} --consumers {consumers} --workers {workers}"
            sys.exit(f"reproduce: python -m bench.isolation {again}")
    click.echo(f"{dict(load.became)}: every byte was the right one")


if __name__ == "__main__":
    main()
