"""What do a thousand old consumers at the tail of one topic cost, and what does one?

Records are appended to a broker without sockets, and every consumer fetches them. Its request is
decoded, and its response is made and written to a channel that accepts everything. The cases are
one old consumer, many old ones, many without a conversion cache, and many current ones. Current
ones get the same records unchanged, which shows the cost of requests and writes alone. The figure
is the thread's CPU time, as the median of the rounds.

    python -m bench.tail [--consumers 1000] [--rounds 9]

Not here: sockets (serving.py), consumers that read different data (downconvert simulate)."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any, Final

import click

from downconvert import eager
from downconvert.broker import Broker, BrokerConfig, Client
from downconvert.protocol.encoder import encode
from downconvert.protocol.schemas import ApiKey, Message
from downconvert.storage import LogDir
from records import Codec, MemoryRecords, Record, build
from records.units import MiB

OLD, NEW = 2, 4  # versions of Fetch: one that needs conversion, and the first that needs none
TOPIC: Final = "events"
RECORDS: Final = 1000  # in an append
KEPT: Final = 16 * MiB


class Everything:
    """A channel that accepts and counts everything."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        self.size += len(data)
        return len(data)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of all fetches. seconds: of CPU, for each append. conversions: their number in
    all."""

    seconds: list[float]
    conversions: int
    size: int  # bytes that were written

    @property
    def milliseconds(self) -> float:
        return median(self.seconds) * 1e3


def appends(codec: Codec, size: int, rounds: int) -> list[bytes]:
    """A batch for each round."""
    return [
        build(
            [
                Record(offset, offset, value=(b"%d " % offset * size)[:size])
                for offset in range(start, start + RECORDS)
            ],
            codec=codec,
            magic=2,
        )
        for start in range(0, rounds * RECORDS, RECORDS)
    ]


def fetch(version: int, offset: int) -> memoryview:
    """The frame of a fetch of the tail."""
    fetched = Message(partition=0, fetch_offset=offset, partition_max_bytes=MiB)
    topics = [Message(topic=TOPIC, partitions=[fetched])]
    header = Message(
        request_api_key=ApiKey.Fetch, request_api_version=version, correlation_id=1, client_id="b"
    )
    body = Message(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=64 * MiB, topics=topics)
    return memoryview(encode("RequestHeader", 1, header) + encode("FetchRequest", version, body))


def tail(batches: Sequence[bytes], consumers: int, version: int, kept: int = KEPT) -> Cost:
    """The cost of so many consumers."""
    seconds, channel = [], Everything()
    with TemporaryDirectory() as directory, opened(directory) as log_dir:
        broker = Broker(log_dir, BrokerConfig(is_writable=True, conversions_kept_bytes=kept))
        broker.topics.create(TOPIC, 1, {}, 0)
        clients = [Client(number + 1, "127.0.0.1") for number in range(consumers)]
        for number, batch in enumerate(batches):
            broker.topics[TOPIC].partitions[0].log.writer.append(batch)
            frame = fetch(version, number * RECORDS)
            started = thread_time()
            for client in clients:
                exchange = broker.handle(client, frame, 0.0)
                while not exchange.is_done:
                    broker.tick(0.0)
                send = exchange.send
                assert send is not None
                while not send.completed:
                    send.write_to(channel, MiB)
                broker.finished(exchange, 0.0)
            seconds.append(thread_time() - started)
        cache = broker.conversion_cache
        return Cost(seconds, cache.misses, channel.size)


def opened(directory: str) -> AbstractContextManager[LogDir]:
    return LogDir.open(Path(directory), writable=True)


def timed(convert: Callable[[], object], rounds: int) -> float:
    """The median of the CPU milliseconds of a call."""
    seconds = []
    for _ in range(rounds):
        started = thread_time()
        convert()
        seconds.append(thread_time() - started)
    return median(seconds) * 1e3


@click.command(help=__doc__)
@click.option("--consumers", default=1000, show_default=True)
@click.option("--rounds", default=9, show_default=True)
@click.option("--smoke", is_flag=True, help="One round of few, to see that it runs.")
def main(consumers: int, rounds: int, smoke: bool) -> None:
    if smoke:
        consumers, rounds = 5, 2
    click.echo(
        f"{RECORDS} records an append; milliseconds of CPU for each append, median of {rounds}"
    )
    click.echo(
        f"{'shape':>12} {'convert':>8} {'one':>8} {f'{consumers}':>9} {'not kept':>9} "
        f"{'as it is':>9} {'conversions':>12} {'many / as it is':>16}"
    )
    for codec in (Codec.NONE, Codec.LZ4, Codec.GZIP):
        for size in (100, 1000):
            batches = appends(codec, size, rounds)
            convert = timed(partial(eager, MemoryRecords(batches[0]), 1), rounds)
            one = tail(batches, 1, OLD)
            many = tail(batches, consumers, OLD)
            alone = tail(batches, consumers, OLD, kept=0)
            today = tail(batches, consumers, NEW)
            if not many.size == alone.size == consumers * one.size:
                raise SystemExit("not everybody was sent the same")
            click.echo(
                f"{f'{codec.name.lower()} {size} B':>12} {convert:8.2f} {one.milliseconds:8.2f} "
                f"{many.milliseconds:9.1f} {alone.milliseconds:9.1f} {today.milliseconds:9.1f} "
                f"{many.conversions / rounds:12.1f} {many.milliseconds / today.milliseconds:16.2f}"
            )


if __name__ == "__main__":
    main()
