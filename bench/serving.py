"""What throughput does one consumer get from `downconvert serve`, and what from a Kafka broker?

Records are produced into a Kafka 3.9.1 broker. Our server is a process of its own, and serves the
same directory. A consumer drains and counts (draining.py). After a warm-up, rounds alternate. Old
consumers use Fetch v2, and get v1 messages. New ones use v11, and get the file unchanged. Ratios
are those of pairs of rounds, because machines are noisy.

    python -m bench.serving [--size 64] [--rounds 7] [--smoke]
    python -m bench.serving memory [--consumers 1000] [--idle 10000] [--smoke]

The second command is serving_memory.py."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from downconvert.protocol.schemas import ApiKey, Message
from records import FileRecords
from records.units import MiB
from simulator import Workload
from simulator import generate as write_segments
from tests import kafka_server

from .servers.draining import Drained, Wire, by_turns, paired, parsed, request
from .servers.processes import Serving, served
from .servers.serving_memory import measure

FETCH_SIZE: Final = MiB  # fetch.message.max.bytes of Kafka 0.8's consumer
OLD, NEW = 2, 11  # versions of Fetch
FULL_SPEED: Final = ("-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
WARM_UP: Final = 4  # times through a partition
PIPELINED: Final = 64  # requests
OFFSET_SIZE: Final = 8  # bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """The served data."""

    codec: str
    record: int  # bytes of a value

    @property
    def topic(self) -> str:
        return f"{self.codec}-{self.record}"

    def workload(self, size: int) -> Workload:
        return Workload.parse(f"codec={self.codec},record={self.record},size={size}MiB")


SHAPES: Final = [Shape(codec, record) for codec in ("none", "lz4") for record in (100, 1000)]
SMOKE: Final = [Shape("none", 1000), Shape("lz4", 1000)]


@dataclass(frozen=True, slots=True)
class Compared:
    """Rounds of both, in pairs."""

    shape: Shape
    version: int
    ours: list[Drained]
    theirs: list[Drained]

    @property
    def ratio(self) -> float:
        """The ratio of records a second. Both send the requested records, but not the same
        bytes."""
        return paired(self.ours, self.theirs)

    def line(self) -> str:
        what = "v2 to v1" if self.version == OLD else "as it is"
        ours, theirs = (
            f"{median(r.rate for r in rounds) / 1e6:7,.0f} MB/s "
            f"{median(r.records_per_second for r in rounds) / 1e6:6.2f} M records/s"
            for rounds in (self.ours, self.theirs)
        )
        return f"{self.shape.topic:10} {what:9} ours {ours}   Kafka {theirs}   {self.ratio:5.2f}x"


def produce(port: int, topic: str, segments: Sequence[Path]) -> None:
    """Sends the batches of segments unchanged, one in each request."""
    with Wire(("127.0.0.1", port)) as wire:
        waiting = 0
        for path in segments:
            data = path.read_bytes()
            with FileRecords.open(path) as log:
                for batch in log.batches():
                    # As from a producer, whose batches begin at offset 0.
                    rest = data[batch.position + OFFSET_SIZE : batch.position + batch.size]
                    wire.send(_produce_request(topic, bytes(OFFSET_SIZE) + rest))
                    waiting += 1
                    if waiting == PIPELINED:
                        _take(wire)
                        waiting -= 1
        for _ in range(waiting):
            _take(wire)


def _produce_request(topic: str, records: bytes) -> bytes:
    partition = Message(index=0, records=records)
    body = Message(
        transactional_id=None,
        acks=1,
        timeout_ms=30_000,
        topic_data=[Message(name=topic, partition_data=[partition])],
    )
    return request(ApiKey.Produce, 3, body)


def _take(wire: Wire) -> None:
    (topic,) = parsed(ApiKey.Produce, 3, wire.response()).responses
    (partition,) = topic.partition_responses
    if partition.error_code:
        raise RuntimeError(f"Kafka refuses a batch: error {partition.error_code}")


@contextmanager
def both(size: int, shapes: Sequence[Shape]) -> Iterator[tuple[Serving, int]]:
    """Our server and the port of Kafka's, with the same directory."""
    with tempfile.TemporaryDirectory(prefix="serving-") as directory:
        log_dir = Path(directory) / "kafka"
        log_dir.mkdir()
        running = kafka_server.running(log_dir=log_dir, jvm_options=FULL_SPEED)
        with running as kafka:
            for shape in shapes:
                made = Path(directory) / shape.topic
                segments = write_segments(shape.workload(size), made)
                kafka.create_topic(shape.topic)
                produce(kafka.ports[0], shape.topic, segments)
            with served(log_dir, "--follow", "--uncommitted") as ours:
                yield ours, kafka.ports[0]


def compare(ours: Serving, kafka: int, shape: Shape, version: int, rounds: int) -> Compared:
    """Rounds of both servers in turns."""
    both = ours.address, ("127.0.0.1", kafka)
    return Compared(
        shape, version, *by_turns(both, version, shape.topic, FETCH_SIZE, WARM_UP, rounds)
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("speed", "memory"), default="speed")
    parser.add_argument("--size", type=int, default=64, help="speed: MiB of records, of each shape")
    parser.add_argument("--rounds", type=int, default=7, help="speed: pairs of each shape")
    parser.add_argument("--consumers", type=int, default=1000, help="memory: that read nothing")
    parser.add_argument("--idle", type=int, default=10_000, help="memory: connections")
    parser.add_argument("--smoke", action="store_true", help="small: only that it runs")
    options = parser.parse_args(arguments)
    if options.what == "memory":
        measure(*((100, 500) if options.smoke else (options.consumers, options.idle)))
        return
    size, rounds = (1, 1) if options.smoke else (options.size, options.rounds)
    shapes = SMOKE if options.smoke else SHAPES
    print(f"{size} MiB of each shape, {rounds} rounds, fetches of {FETCH_SIZE:,} bytes")
    with both(size, shapes) as (ours, kafka):
        for version in (OLD, NEW):
            for shape in shapes:
                print(compare(ours, kafka, shape, version, rounds).line(), flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.SubprocessError as error:
        sys.exit(str(error))
